package node

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// counted counts its reads.
type counted struct {
	io.Reader
	reads int
}

func (c *counted) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}

func TestOnlyHTTP2IsReadAhead(t *testing.T) {
	for name, tt := range map[string]struct {
		text        string
		least, most int // reads of the connection, by 24 bytes and then by 9
	}{
		"HTTP/2":                 {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("frame of9", 1000), 2, 3},
		"HTTP/1.1":               {"POST /v1/streams/m1 HTTP/1.1\r\n" + strings.Repeat("frame of9", 1000), 1002, 1004},
		"nothing":                {"", 1, 1},
		"HTTP/2 in a later line": {strings.Repeat("x", 24) + "PRI * HTTP/2.0" + strings.Repeat("frame of9", 1000), 1002, 1004},
	} {
		t.Run(name, func(t *testing.T) {
			conn := &counted{Reader: strings.NewReader(tt.text)}
			var a ahead
			var got strings.Builder
			p := make([]byte, 24)
			for n, err := a.read(conn, p); err == nil; n, err = a.read(conn, p[:9]) {
				got.Write(p[:n])
			}
			if got.String() != tt.text {
				t.Errorf("read %d bytes of %d, or others", got.Len(), len(tt.text))
			}
			if conn.reads < tt.least || conn.reads > tt.most {
				t.Errorf("%d reads of the connection, not %d to %d", conn.reads, tt.least, tt.most)
			}
		})
	}
}

func TestAnErrorOfTheConnectionIsReadWhereItComes(t *testing.T) {
	conn := iotest.TimeoutReader(iotest.HalfReader(strings.NewReader("PRI * HTTP/2.0")))
	var a ahead
	p := make([]byte, 14)
	if n, err := a.read(conn, p); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := a.read(conn, p); n != 0 || err != iotest.ErrTimeout {
		t.Errorf("%d, %v", n, err)
	}
}
