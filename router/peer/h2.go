package peer

import (
	"net/http"
	"time"
)

// The numbers of the connection between two members.
//
// What one end sends and the other does not read waits in the reader's memory,
// at most window bytes a stream; all such bytes together may fill the
// connection's window, and then nothing moves for anybody. unreadStreams streams
// may stand still, each with its window full, before that happens. Whoever
// reads the answers of [Client.Do] should read all the time, whatever becomes of
// its own readers; this is the reserve for when it doesn't. A stream goes at
// most at window bytes per round trip: 128 MiB/s at 1 ms.
const (
	streamWindow     = 128 << 10
	unreadStreams    = 4096
	connectionWindow = streamWindow * unreadStreams // 512 MiB

	// maxStreams is how many requests may be under way on one connection. Go's
	// default of 250 would make the next one wait.
	maxStreams = 100_000

	maxHeader = 64 << 10 // bytes, of a request or an answer

	// A connection on which nothing has come for pingAfter is asked for a sign of
	// life, and closed if there is none within pingWithin. So a live connection is
	// never silent for longer than pingAfter and a round trip, and a dead one is
	// noticed within five seconds.
	pingAfter  = time.Second
	pingWithin = 4 * time.Second

	// stuckAfter closes a connection whose peer takes no byte of what is being sent.
	stuckAfter = 5 * time.Second
)

// http2Config is for both ends. (The documentation of Go 1.26 has a limit of 4 MiB
// for the connection's buffer, which the library does not have; were it to come,
// the tests of unread streams would tell.)
func http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReceiveBufferPerConnection: connectionWindow,
		MaxReceiveBufferPerStream:     streamWindow,
		SendPingTimeout:               pingAfter,
		PingTimeout:                   pingWithin,
		WriteByteTimeout:              stuckAfter,
	}
}

// protocols is HTTP/2 alone: by prior knowledge in cleartext, else by TLS.
func protocols(encrypted bool) *http.Protocols {
	var p http.Protocols
	p.SetHTTP2(encrypted)
	p.SetUnencryptedHTTP2(!encrypted)
	return &p
}
