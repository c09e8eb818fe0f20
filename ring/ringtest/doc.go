// Package ringtest is a network in memory for tests of clusters. Hosts have IP
// addresses, carry gossip (as a [memberlist.Transport]) and streams (as
// [net.Listener] and [net.Conn]), and the test decides what passes: latency, loss,
// cuts both ways or one way, hosts that are frozen, crashed or killed.
//
// It waits on channels and timers only, so that it runs in a [testing/synctest]
// bubble, in virtual time. All buffers are bounded: packets that find theirs full
// are dropped, as in a real network, and writers of a stream that find theirs full
// wait until the deadline of the connection, or until either side closes it.
//
// Streams behave like TCP that never gives up: what is written while the way is
// cut arrives when it is whole again.
//
// A bubble's time stops when its test returns, and memberlist's goroutines end by
// their timeouts: let some seconds pass after the last member was shut down.
package ringtest
