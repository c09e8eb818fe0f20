// Package plane is one live stream: a response text that grows, the readers
// that follow it, and the checkpoints that make it durable.
//
// It has no network and no SQL. A [Stream] is a state machine driven by its
// producer (Push, Flush, Close, Fail), by its readers ([Stream.Join]) and by
// timers; what it needs of a database it asks of a [Store], which it defines.
// Time is the standard package's, so that testing/synctest can drive it.
//
// The contracts that the code and its tests name by letter are:
//
//	S, splice    durable text up to f, joined with the chunks from f, is the produced text
//	P, prefix    durable text is a prefix of the produced text and never shrinks
//	H, honesty   chunk says produced, durable says committed, end says sealed; never earlier
//	O, one owner a write that does not carry the row's owner token changes nothing
//	B, bounded   nothing waits or grows without a bound
//	A, authorize authorization comes before existence is looked at (package actor)
//	L, liveness  no stream is streaming for ever
//	I, isolation a slow reader or a slow row costs itself
//
// All offsets and lengths are UTF-16 code units, as a JavaScript string counts
// them, unless a name says bytes.
package plane
