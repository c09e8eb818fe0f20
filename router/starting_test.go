package router_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router"
)

// A pump's body may be open for as long as its model speaks.
func TestANodeThatServesNothingYetSaysSoBeforeABodyEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(router.Starting))
	t.Cleanup(server.Close)
	for _, body := range []string{"Transfer-Encoding: chunked", "Content-Length: 10"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(conn, "POST /v1/streams/m1/pump HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", body)
		answers := bufio.NewReader(conn)
		resp, err := http.ReadResponse(answers, nil)
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !resp.Close {
			t.Fatalf("%s: %+v, %v", body, resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if _, err := answers.ReadByte(); err != io.EOF {
			t.Errorf("%s: the connection stays: %v", body, err)
		}
	}
}
