package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// eager is a policy that makes text durable at once, so that it is acknowledged.
func eager() plane.Policy {
	p := plane.DefaultPolicy()
	p.Interval = 5 * time.Millisecond
	return p
}

// pumping is a pump request over a socket, whose body is sent piece by piece.
type pumping struct {
	*socket
	headed bool
}

func (r *running) pump(id, query, kind string, lines ...string) *pumping {
	r.tb.Helper()
	s := r.dial()
	head := append([]string{
		"POST " + path(id, "pump") + "?" + query + " HTTP/1.1", "Host: 127.0.0.1",
		"Content-Type: " + kind, "Transfer-Encoding: chunked",
	}, lines...)
	s.send("%s\r\n\r\n", strings.Join(head, "\r\n"))
	return &pumping{socket: s}
}

// piece sends a piece of the body.
func (p *pumping) piece(text string) {
	p.tb.Helper()
	p.send("%x\r\n%s\r\n", len(text), text)
}

// finish ends the body.
func (p *pumping) finish() {
	p.tb.Helper()
	p.send("0\r\n\r\n")
}

// ack returns the next line of the answer.
func (p *pumping) ack() wire.PumpLine {
	p.tb.Helper()
	if !p.headed {
		p.headed = true
		if head := p.head(); head[0] != "HTTP/1.1 200 OK" || !strings.Contains(strings.Join(head, "\n"), "Content-Type: application/x-ndjson") {
			p.tb.Fatalf("head: %q", head)
		}
	}
	size := p.line() // of the chunk, which holds one line
	var line wire.PumpLine
	text := p.line()
	if err := json.Unmarshal([]byte(text), &line); err != nil || size != fmt.Sprintf("%x\r\n", len(text)) {
		p.tb.Fatalf("line %q in a chunk of %q: %v", text, size, err)
	}
	p.want("\r\n")
	return line
}

// last returns the last line of the answer; those before say no other things.
func (p *pumping) last() wire.PumpLine {
	p.tb.Helper()
	for seq := int64(-1); ; {
		line := p.ack()
		if line.Seq < seq || line.DurableSeq > line.Seq {
			p.tb.Fatalf("acknowledged %+v after %d", line, seq)
		}
		seq = line.Seq
		if line.Done || line.Error != nil {
			return line
		}
	}
}

func TestAPumpIsAcknowledgedWhileItsBodyIsOpen(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Policy: eager()}, func(t *testing.T, n *running) {
		n.open("m1")
		durable := make(chan int64, 100)
		source := func(ctx context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for sent := int64(0); sent < 50; { // each delta waits for the one before to be durable
					if !yield("five ", nil) {
						return
					}
					sent += 5
					for have := int64(0); have < sent; {
						select {
						case have = <-durable:
						case <-ctx.Done():
							yield("", ctx.Err())
							return
						}
					}
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		ack, err := n.client.Pump(ctx, "m1", 0, source, func(a wire.Ack) { durable <- a.DurableSeq })
		if err != nil || ack.Seq != 50 || !ack.Done || ack.Cancelled {
			t.Fatalf("%+v, %v", ack, err)
		}
		if snap := n.snapshot("m1"); snap.Status != plane.StatusStreaming || snap.Text != strings.Repeat("five ", 10) {
			t.Errorf("a pump leaves the stream open: %s %q", snap.Status, snap.Text)
		}
	})
}

func TestAPumpTakesLinesOrText(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: eager()})
	for _, c := range []struct {
		name, kind string
		pieces     []string
		want       string
	}{
		{"lines", "application/x-ndjson", []string{"{\"text\":\"a\"}\n{\"te", "xt\":\"\\ud83d\"}\n", "\n{\"text\":\"\\ude00\"}"}, "a😀"},
		{"strings", "application/x-ndjson; charset=utf-8", []string{"\"a\"\r\n\"b\"\r\n"}, "ab"},
		{"text", "text/plain", []string{"a\n", "\xf0\x9f", "\x98\x80\n{"}, "a\n😀\n{"},
		{"nothing", "application/x-ndjson", nil, ""},
		{"no text", "text/plain", nil, ""},
	} {
		n.open(c.name)
		p := n.pump(c.name, "from=0", c.kind)
		for _, piece := range c.pieces {
			p.piece(piece)
		}
		p.finish()
		if line := p.last(); line.Error != nil || !line.Done || line.Cancelled || line.Seq != plane.Units(c.want) {
			t.Errorf("%s: last line %+v", c.name, line)
		}
		n.seal(c.name)
		if got := n.snapshot(c.name).Text; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	n.open("m1")
	for _, kind := range []string{"application/json", "text/html", "text/plain; charset=utf-16"} {
		wantError(t, kind, n.do(http.MethodPost, path("m1", "pump"), "x", "Content-Type", kind), 415, "unsupported_media_type")
	}
	for _, query := range []string{"from=", "from=-1", "from=x", "from=%2"} {
		wantError(t, query, n.do(http.MethodPost, path("m1", "pump")+"?"+query, "x"), 400, "bad_request")
	}
}

func TestAPumpThatIsCutKeepsItsWholeLines(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*pumping){
		"closed": func(p *pumping) { _ = p.conn.Close() },
		"reset":  func(p *pumping) { p.reset() },
	} {
		n := openNode(t, node.Config{Policy: eager()})
		n.open("m1")
		p := n.pump("m1", "from=0", "application/x-ndjson")
		p.piece("{\"text\":\"one \"}\n{\"text\":\"two \"}\n{\"text\":\"thr")
		for p.ack().DurableSeq < 8 {
		}
		end(p)
		await(t, "the pump is over", func() bool {
			return n.metrics()[`rillkeep_http_requests_total{route="/v1/streams/:id/pump",status="200"}`] == 1
		})
		if snap := n.snapshot("m1"); snap.Text != "one two " || snap.Status != plane.StatusStreaming {
			t.Errorf("%s: %q %s", name, snap.Text, snap.Status)
		}
		again := n.pump("m1", "from=4", "application/x-ndjson") // its producer repeats what it is not sure of
		again.piece("{\"text\":\"two \"}\n{\"text\":\"three\"}\n")
		again.finish()
		if line := again.last(); line.Error != nil || line.Seq != 13 {
			t.Errorf("%s: repeated: %+v", name, line)
		}
		n.seal("m1")
		if got := n.snapshot("m1").Text; got != "one two three" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestAPumpSaysWhyItEnds(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: eager(), Limits: router.Limits{PumpLineBytes: 100}})
	for _, c := range []struct {
		name, query, kind, body string
		code                    string
		want                    int64 // where the next append starts; -1: not said
		text                    string
	}{
		{"not JSON", "from=0", "application/x-ndjson", "{\"text\":\"good\"}\nGHOST\n{\"text\":\"GHOST\"}\n", "bad_request", -1, "good"},
		{"a number", "from=0", "application/x-ndjson", "{\"text\":\"good\"}\n7\n", "bad_request", -1, "good"},
		{"an error", "from=0", "application/x-ndjson", "{\"text\":\"good\"}\n{\"error\":{\"message\":\"gone\"}}\n", "bad_request", -1, "good"},
		{"too long", "from=0", "application/x-ndjson", "{\"text\":\"good\"}\n{\"text\":\"" + strings.Repeat("GHOST", 100) + "\"}\n", "too_large", -1, "good"},
		{"gap", "from=3", "application/x-ndjson", "{\"text\":\"GHOST\"}\n", "gap", 0, ""},
		{"conflict", "", "application/x-ndjson", "{\"text\":\"good\"}\n", "", -1, "good"},
		{"conflict", "from=0", "application/x-ndjson", "{\"text\":\"GHOST\"}\n", "conflict", 4, "good"},
	} {
		if c.query != "" && c.want != 4 || c.code == "" {
			n.open(c.name)
		}
		p := n.pump(c.name, c.query, c.kind)
		p.piece(c.body)
		if c.code == "" {
			p.finish()
		}
		line := p.last() // it comes though the body has not ended
		switch {
		case c.code == "":
			if line.Error != nil || !line.Done {
				t.Errorf("%s: %+v", c.name, line)
			}
		case line.Error == nil || line.Error.Code != c.code || line.Done:
			t.Errorf("%s: last line %+v, want %s", c.name, line, c.code)
		case c.want >= 0 && (line.Error.Want == nil || *line.Error.Want != c.want):
			t.Errorf("%s: want %v", c.name, line.Error)
		case strings.Contains(line.Error.Message, "GHOST"):
			t.Errorf("%s: the message quotes the text: %s", c.name, line.Error.Message)
		}
		if snap := n.snapshot(c.name); snap.Text != c.text || snap.Status != plane.StatusStreaming {
			t.Errorf("%s: %q %s", c.name, snap.Text, snap.Status)
		}
	}
}

func TestAQuietPumpIsToldOfAStopOrAnEndAtOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		for _, c := range []struct {
			action string
			right  func(wire.PumpLine) bool
		}{
			{"cancel", func(l wire.PumpLine) bool { return l.Error == nil && l.Done && l.Cancelled && l.Seq == 4 }},
			{"close", func(l wire.PumpLine) bool {
				return l.Error != nil && l.Error.Code == "closed" && l.Ack == wire.Ack{Seq: 4, DurableSeq: 4, Status: plane.StatusComplete}
			}},
			{"fail", func(l wire.PumpLine) bool {
				return l.Error != nil && l.Error.Code == "closed" && l.Ack == wire.Ack{Seq: 4, DurableSeq: 4, Status: plane.StatusError}
			}},
		} {
			n.open(c.action)
			p := n.pump(c.action, "from=0", "application/x-ndjson")
			p.piece("{\"text\":\"text\"}\n")
			await(t, "the delta is there", func() bool { return n.snapshot(c.action).Seq == 4 })
			if a := n.do(http.MethodPost, path(c.action, c.action), ""); a.status/100 != 2 {
				t.Fatal(a)
			}
			if line := p.last(); !c.right(line) {
				t.Errorf("%s: last line %+v, %v", c.action, line, line.Error)
			}
			if c.action == "cancel" { // the rest of the body is not waited for
				p.want("0\r\n\r\n")
				p.wantEnd()
			}
			n.seal(c.action)
		}
	})
}

func TestAClientsPumpStopsItsSourceWhenTheStreamIsStopped(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: eager()})
	n.open("m1")
	stopped := make(chan error, 1)
	source := func(ctx context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			yield("text", nil)
			if _, err := n.client.Cancel(t.Context(), "m1"); err != nil {
				t.Error(err)
			}
			<-ctx.Done() // quiet
			stopped <- context.Cause(ctx)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ack, err := n.client.Pump(ctx, "m1", 0, source, nil)
	if err != nil || !ack.Cancelled {
		t.Errorf("%+v, %v", ack, err)
	}
	if cause := <-stopped; errors.Is(cause, context.DeadlineExceeded) {
		t.Errorf("the source was told %v", cause)
	}
}

// A body that goes on and says nothing keeps no answer back.
func TestARefusedPumpIsToldSoThoughItsBodyIsOpen(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	limits := router.Limits{BodyTime: 2 * patience} // so that nothing but the refusal ends the wait for the body
	keyed := openNode(t, node.Config{Keys: k.Keys, Limits: limits})
	policy := plane.DefaultPolicy()
	policy.CancelGrace = 2 * patience
	n := openNode(t, node.Config{Policy: policy, Limits: limits})
	for _, id := range []string{"ended", "stopped and ended", "live"} {
		n.open(id)
	}
	n.seal("ended")
	for _, action := range []string{"cancel", "close"} {
		if a := n.do(http.MethodPost, path("stopped and ended", action), ""); a.status/100 != 2 {
			t.Fatal(a)
		}
	}
	for _, stopped := range []string{"stopped", "stopped through the client"} {
		n.open(stopped)
		if _, err := n.client.Cancel(t.Context(), stopped); err != nil {
			t.Fatal(err)
		}
	}
	quiet := func(ctx context.Context) iter.Seq2[string, error] {
		return func(func(string, error) bool) { <-ctx.Done() }
	}
	ack, err := n.client.Pump(t.Context(), "stopped through the client", 0, quiet, nil)
	if err != nil || ack != (wire.Ack{Cancelled: true}) {
		t.Errorf("the client: %+v, %v", ack, err)
	}
	for name, c := range map[string]struct {
		node            *running
		id, query, kind string
		want            string
	}{
		"no such stream":   {n, "none", "", "application/x-ndjson", "404 Not Found"},
		"ended":            {n, "ended", "", "application/x-ndjson", "409 Conflict"},
		"stopped":          {n, "stopped and ended", "", "application/x-ndjson", "409 Conflict"},
		"another type":     {n, "live", "", "text/html", "415 Unsupported Media Type"},
		"no offset":        {n, "live", "from=x", "application/x-ndjson", "400 Bad Request"},
		"no token":         {keyed, "live", "", "application/x-ndjson", "401 Unauthorized"},
		"no stream's name": {n, strings.Repeat("x", 300), "", "application/x-ndjson", "400 Bad Request"},
	} {
		p := c.node.pump(c.id, c.query, c.kind)
		p.piece("{\"text\":\"text\"}\n")
		if head := p.head(); head[0] != "HTTP/1.1 "+c.want {
			t.Errorf("%s: %q", name, head)
		}
	}
}

func TestWhatIsLeftOfAPumpsBodyIsNoRequest(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	n.open("other")
	p := n.pump("m1", "", "application/x-ndjson")
	p.piece("{\"text\":\"text\"}\nno JSON\n")
	if line := p.last(); line.Error == nil {
		t.Fatalf("%+v", line)
	}
	const request = "POST /v1/streams/other/cancel HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
	p.piece("text with a line\r\n")
	p.send("%s0\r\n\r\n%s", request, request)
	p.want("0\r\n\r\n")
	p.wantEnd()
	if a := n.do(http.MethodPost, path("other", "append"), `{"text":"x"}`); a.status != http.StatusOK {
		t.Errorf("append to the other: %d %s", a.status, a.body)
	}
}

func TestAPumpIsSlowedToTheStoreAndNotStuck(t *testing.T) {
	t.Parallel()
	policy := plane.DefaultPolicy()
	policy.MaxOutstanding, policy.MaxSlice = 2000, 2000
	onEachStore(t, node.Config{Policy: policy}, func(t *testing.T, n *running) {
		n.open("m1")
		text := strings.Repeat("0123456789", 20_000)
		n.pumpText("m1", text)
		n.seal("m1")
		if got := n.snapshot("m1").Text; got != text {
			t.Errorf("%d bytes of %d", len(got), len(text))
		}
		counts := n.metrics()
		if units := counts["rillkeep_checkpoint_units_total"]; units < 200_000 {
			t.Errorf("%v units made durable", units)
		}
	})
}

func TestWhoNeverReadsAcknowledgementsBlocksNobody(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: eager()})
	n.open("deaf")
	n.open("other")
	p := n.pump("deaf", "", "application/x-ndjson")
	if err := p.conn.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	r := n.reads("deaf", "")
	pos := int64(0)
	for range 300 {
		p.piece("{\"text\":\"x\"}\n")
		pos = n.push("other", pos, "y")
	}
	if err := r.until(300); err != nil {
		t.Error(err)
	}
	p.finish()
	n.seal("deaf")
	n.seal("other")
	if err := r.rest(); err != nil {
		t.Error(err)
	}
}

func TestAPumpThatAsksFirstIsToldToContinue(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: eager()})
	n.open("m1")
	p := n.pump("m1", "from=0", "text/plain", "Expect: 100-continue")
	p.want("HTTP/1.1 100 Continue\r\n\r\n")
	p.piece("text")
	p.finish()
	if line := p.last(); !line.Done || line.Seq != 4 {
		t.Errorf("%+v", line)
	}
}

// Of a pump whose store takes nothing, no more is taken than the bound, and the next
// delta: the rest stays with its producer, who is told what is where.
func TestAPumpWhoseStoreIsBehindWaits(t *testing.T) {
	t.Parallel()
	policy := impatient()
	policy.MaxOutstanding = 1000
	onEachStore(t, node.Config{Policy: policy}, func(t *testing.T, n *running) {
		n.open("m1")
		release := n.block()
		text := strings.Repeat("0123456789", 40_000)
		sent := make(chan error, 1)
		var acks []wire.Ack
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := n.client.Pump(ctx, "m1", 0, func(context.Context) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					for at := 0; at < len(text) && yield(text[at:at+10], nil); at += 10 {
					}
				}
			}, func(a wire.Ack) { acks = append(acks, a) })
			sent <- err
		}()
		await(t, "it is full", func() bool { return n.snapshot("m1").Seq >= 1000 })
		for range 50 {
			<-time.After(10 * time.Millisecond)
			if snap := n.snapshot("m1"); snap.Seq > 1010 || snap.DurableSeq != 0 {
				t.Fatalf("it took %d, of which %d are durable", snap.Seq, snap.DurableSeq)
			}
		}
		release()
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		for _, a := range acks {
			if a.Seq-a.DurableSeq > 1010 {
				t.Errorf("acknowledged %+v", a)
			}
		}
		n.seal("m1")
		wantEnding(t, n, "m1", plane.StatusComplete, text)
	})
}

// The line that told of it may have been lost with the connection before.
func TestAPumpIsToldAtOnceWhatIsDurableAlready(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: patient(), Limits: router.Limits{Ping: 2 * patience}})
	n.open("m1")
	pos := n.push("m1", 0, "text")
	n.flush("m1")
	p := n.pump("m1", "from=4", "application/x-ndjson")
	if line := p.ack(); line.Seq != pos || line.DurableSeq != pos || line.Done {
		t.Errorf("%+v", line)
	}
	p.finish()
	if line := p.last(); !line.Done {
		t.Errorf("%+v", line)
	}
}
