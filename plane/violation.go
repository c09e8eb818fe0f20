package plane

// Violation is how frames from another process broke the rules of a
// subscription. It is an error, found by errors.As or compared by errors.Is, and
// its text serves as a label: it names the rule, never the text.
type Violation string

// The ways to break a subscription.
const (
	BrokenFrame   Violation = "broken-frame"   // no frame at all, or one of an unknown type
	OpenMalformed Violation = "open-malformed" // bad fields, or another stream's
	OpenBeyond    Violation = "open-beyond"    // starts past the offset that was asked for
	ChunkSpan     Violation = "chunk-span"     // offsets bad, or not those of the text
	ChunkGap      Violation = "chunk-gap"      // starts past the end of what was delivered
	ChunkDiffers  Violation = "chunk-differs"  // repeats what was delivered with other text
	EndMalformed  Violation = "end-malformed"  // bad fields
	EndOutruns    Violation = "end-outruns"    // past what was delivered: text was lost
	EpochChanged  Violation = "epoch-changed"  // of another epoch than the frames before
	NoTerminal    Violation = "no-terminal"    // the source ended too early
	SourceFailed  Violation = "source-threw"   // the source failed; the cause is wrapped beside it
)

func (v Violation) Error() string { return string(v) }

// spans reports whether a chunk's text is exactly what its offsets say.
func (f Frame) spans() bool {
	return !f.malformed && 0 <= f.From && f.From <= f.Seq && f.Seq <= MaxOffset &&
		Units(f.Text) == f.Seq-f.From
}

// opens reports whether f can begin a subscription to a stream.
func (f Frame) opens(streamID string) bool {
	return !f.malformed && f.StreamID == streamID &&
		0 <= f.From && f.From <= f.Seq && f.Seq <= MaxOffset &&
		0 <= f.DurableSeq && f.DurableSeq <= f.Seq
}

// ends reports whether an end says in a valid way how a stream ended.
func (f Frame) ends() bool {
	return !f.malformed && 0 <= f.Seq && f.Seq <= MaxOffset && f.Status.Ended()
}
