package node

import (
	"bufio"
	"bytes"
	"io"
)

// aheadBytes is how much of an HTTP/2 connection is read at once.
const aheadBytes = 16 << 10

// ahead reads from a connection, one of HTTP/2 ahead of who asks: net/http asks for
// the head of a frame and then for what is in it, which for a producer's deltas would
// be two system calls each. HTTP/1.1 has a buffer of the server's own, and no other.
// Like any reader it is for one goroutine at a time.
type ahead struct {
	begun  bool
	buffer *bufio.Reader // nil if the client does not speak HTTP/2
}

func (a *ahead) read(conn io.Reader, p []byte) (int, error) {
	if a.buffer != nil {
		return a.buffer.Read(p)
	}
	n, err := conn.Read(p)
	if n > 0 && !a.begun {
		a.begun = true
		if bytes.HasPrefix(p[:n], []byte("PRI ")) { // no method of HTTP/1.1
			a.buffer = bufio.NewReaderSize(conn, aheadBytes)
		}
	}
	return n, err
}
