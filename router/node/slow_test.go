package node_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
)

// dribble sends a byte now and then until the server ends the connection.
func (s *socket) dribble(every time.Duration) {
	s.tb.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	gone := make(chan string, 1)
	go func() { gone <- s.cutOff() }()
	for {
		select {
		case <-gone:
			return
		case <-tick.C:
			_, _ = s.conn.Write([]byte("x")) // an error is the end, too
		}
	}
}

func TestWhoSendsAHeaderOrABodyTooSlowlyIsCut(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	limits := router.Limits{HeaderTime: time.Second, BodyTime: time.Second, Ping: 100 * time.Millisecond}
	open := openNode(t, node.Config{Limits: limits})
	closed := openNode(t, node.Config{Limits: limits, Keys: keys.Keys})
	open.open("m1")
	reader := open.reads("m1", "") // whose long answer the same limits do not touch
	producer := open.pump("m1", "from=0", "text/plain")
	producer.piece("one ")

	const body = " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
	var all sync.WaitGroup
	for _, n := range []*running{open, closed} {
		for _, begin := range []string{
			"", "G", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
			// Also where the body is of no interest, or the request is refused.
			"POST /v1/streams/m1/append" + body, "POST /v1/streams/m2" + body, "POST /v1/streams/m1/close" + body,
			"POST /v1/streams/m1/flush" + body, "POST /v1/streams/none/cancel" + body, "POST /nothing" + body,
			"GET /healthz" + body, "GET /v1/streams" + body, "GET /" + body,
			"POST /v1/streams/m1/append HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n",
		} {
			for range 4 {
				s := n.dial()
				s.send("%s", begin)
				all.Go(func() { s.dribble(100 * time.Millisecond) })
			}
		}
	}
	all.Wait()
	if err := reader.until(4); err != nil {
		t.Error(err)
	}
	producer.piece("two")
	producer.finish()
	if line := producer.last(); !line.Done || line.Seq != 7 {
		t.Errorf("pump: %+v", line)
	}
	if snap := open.snapshot("m1"); strings.Contains(snap.Text, "x") || snap.Text != "one two" {
		t.Errorf("the text is %q", snap.Text)
	}
	open.seal("m1")
	if err := reader.rest(); err != nil {
		t.Error(err)
	}
}

func TestARequestMayTakeLongerThanItsBody(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Limits: router.Limits{BodyTime: 500 * time.Millisecond}})
	n.open("m1")
	n.push("m1", 0, "text")
	release := n.block()
	time.AfterFunc(1200*time.Millisecond, release)
	if a := n.do("POST", path("m1", "close"), `{"status":"complete"}`); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
