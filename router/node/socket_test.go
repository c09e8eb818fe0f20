package node_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// socket is a client that sends and gets exact bytes.
type socket struct {
	tb   testing.TB
	conn *net.TCPConn
	in   *bufio.Reader
}

func (r *running) dial() *socket {
	r.tb.Helper()
	conn, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		r.tb.Fatal(err)
	}
	return &socket{tb: r.tb, conn: conn.(*net.TCPConn), in: bufio.NewReader(conn)}
}

func (s *socket) send(format string, args ...any) {
	s.tb.Helper()
	if _, err := fmt.Fprintf(s.conn, format, args...); err != nil {
		s.tb.Fatal(err)
	}
}

// get sends a read request. lines are further header lines.
func (s *socket) get(proto, target string, lines ...string) {
	s.tb.Helper()
	lines = append([]string{"GET " + target + " " + proto, "Host: 127.0.0.1"}, lines...)
	s.send("%s\r\n\r\n", strings.Join(lines, "\r\n"))
}

// head returns the head of the response, its lines without their ends.
func (s *socket) head() []string {
	s.tb.Helper()
	var lines []string
	for {
		line := s.line()
		if !strings.HasSuffix(line, "\r\n") {
			s.tb.Fatalf("header line %q has no CR LF", line)
		}
		if line = strings.TrimSuffix(line, "\r\n"); line == "" {
			return lines
		}
		lines = append(lines, line)
	}
}

// line returns the next line with its end.
func (s *socket) line() string {
	s.tb.Helper()
	line, err := s.in.ReadString('\n')
	if err != nil {
		s.tb.Fatalf("read line: got %q, %v", line, err)
	}
	return line
}

// want fails the test unless exactly these bytes come next.
func (s *socket) want(bytes string) {
	s.tb.Helper()
	got := make([]byte, len(bytes))
	n, err := io.ReadFull(s.in, got)
	if string(got[:n]) != bytes {
		s.tb.Fatalf("got  %q (%v)\nwant %q", got[:n], err, bytes)
	}
}

// wantEnd fails the test unless the connection ends here.
func (s *socket) wantEnd() {
	s.tb.Helper()
	rest, err := io.ReadAll(s.in)
	if err != nil || len(rest) > 0 {
		s.tb.Fatalf("after the end came %q, %v", rest, err)
	}
}

// cutOff waits until the server ends the connection, and returns what came
// before.
func (s *socket) cutOff() string {
	s.tb.Helper()
	rest, err := io.ReadAll(s.in)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		s.tb.Fatalf("the server did not end the connection within %v; got %q", patience, rest)
	}
	return string(rest)
}

// reset ends the connection with an RST.
func (s *socket) reset() {
	s.tb.Helper()
	if err := errors.Join(s.conn.SetLinger(0), s.conn.Close()); err != nil {
		s.tb.Fatal(err)
	}
}
