package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
)

// drain drains the node within what a test waits for.
func (r *running) drain() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.tb.Context()), patience)
	defer cancel()
	return r.Drain(ctx)
}

func TestADrainLosesNothingThatWasProduced(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Policy: patient(), Limits: router.Limits{DurablePoll: 200 * time.Millisecond}}, func(t *testing.T, n *running) {
		const streams = 20
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var readers errgroup.Group
		texts := make(map[string]string)
		for i := range streams {
			id := fmt.Sprint("m", i)
			n.open(id)
			texts[id] = words(1 + 10*i)
			n.push(id, 0, texts[id])
			if i%2 == 0 {
				n.flush(id)
				n.push(id, plane.Units(texts[id]), " tail")
				texts[id] += " tail"
			}
			for _, p := range []string{"auto", "live", "durable"} {
				r, err := n.join(ctx, id, "plane="+p)
				if err != nil {
					t.Fatal(err)
				}
				var got strings.Builder
				r.into = &got
				readers.Go(func() error {
					err := r.rest()
					if err == nil && (r.end.Kind != plane.KindEnd || r.end.Status != plane.StatusInterrupted || got.String() != texts[id]) {
						err = fmt.Errorf("%s, %s: %d bytes, %+v", id, p, got.Len(), r.end)
					}
					return err
				})
			}
		}
		n.open("pumped")
		p := n.pump("pumped", "", "text/plain")
		p.piece("pumped text")
		await(t, "the pump's text is there", func() bool { return n.snapshot("pumped").Seq == 11 })
		texts["pumped"] = "pumped text"

		if err := n.drain(); err != nil {
			t.Errorf("drain: %v", err)
		}
		if err := readers.Wait(); err != nil {
			t.Error(err)
		}
		if line := p.last(); line.Error == nil || line.Error.Code != "closed" || line.Seq != 11 {
			t.Errorf("the pump's last line: %+v", line)
		}
		if err := errors.Join(n.Close(), n.drain()); err != nil {
			t.Errorf("once more: %v", err)
		}
		n = n.restart()
		for id, text := range texts {
			wantEnding(t, n, id, plane.StatusInterrupted, text)
		}
	})
}

func TestADrainingNodeSaysSoAndTakesNoStream(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.open("m1")
		n.push("m1", 0, "text")
		release := n.block()
		drained := make(chan error, 1)
		go func() { drained <- n.drain() }()
		await(t, "it is not ready", func() bool {
			a := n.do(http.MethodGet, "/readyz", "")
			return a.status == http.StatusServiceUnavailable && strings.Contains(a.body, "draining") && a.header.Get("Retry-After") != ""
		})
		if a := n.do(http.MethodGet, "/healthz", ""); a.status != http.StatusOK {
			t.Errorf("healthz: %d", a.status)
		}
		a := n.do(http.MethodPost, path("m2"), "")
		wantError(t, "open", a, http.StatusServiceUnavailable, "draining")
		if a.header.Get("Retry-After") == "" {
			t.Error("open: no Retry-After")
		}
		await(t, "m1 takes no more", func() bool {
			return n.do(http.MethodPost, path("m1", "append")+"?from=0", `{"text":"text"}`).err().Code == "closed"
		})
		r := n.reads("m1", "")
		if err := r.until(4); err != nil {
			t.Error(err)
		}
		release()
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if err := r.rest(); err != nil || r.end.Status != plane.StatusInterrupted {
			t.Errorf("%+v, %v", r.end, err)
		}
	})
}

func TestADrainDoesNotWaitForAReaderThatTakesNothing(t *testing.T) {
	t.Parallel()
	for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			n := openNode(t, node.Config{})
			n.open("m1")
			conn, err := smallWindow(t.Context(), "tcp", n.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "GET /v1/streams/m1 %s\r\nHost: 127.0.0.1\r\n\r\n", proto)
			await(t, "it reads", func() bool { return n.metrics()["rillkeep_readers"] == 1 })
			n.pumpText("m1", strings.Repeat("0123456789abcdef", 500_000))
			began := time.Now()
			if err := n.drain(); err != nil {
				t.Errorf("drain: %v", err)
			}
			if took := time.Since(began); took > patience/2 {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestADrainReportsWhatDidNotReachTheStore(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: impatient()})
	n.open("reached")
	n.seal("reached")
	n.open("m1")
	r := n.reads("m1", "")
	release := n.block()
	n.push("m1", 0, "text")
	drained := make(chan error, 1)
	go func() { drained <- n.drain() }()
	if err := r.rest(); err != nil || r.end.Status != plane.StatusInterrupted || r.end.Seq != 0 {
		t.Errorf("%+v, %v", r.end, err)
	}
	release()
	err := <-drained
	if !errors.Is(err, plane.ErrShort) || !strings.Contains(fmt.Sprint(err), `"m1"`) || strings.Contains(fmt.Sprint(err), "reached") {
		t.Errorf("drain: %v", err)
	}
}

func TestADrainEndsInTimeWithoutTheStore(t *testing.T) {
	t.Parallel()
	policy := plane.DefaultPolicy()
	policy.StoreTimeout = 2 * patience // so that nothing but the drain's own end ends it
	onEachStore(t, node.Config{Policy: policy}, func(t *testing.T, n *running) {
		n.open("m1")
		release := n.block()
		n.push("m1", 0, "text")
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Second)
		defer cancel()
		began := time.Now()
		err := n.Drain(ctx)
		if took := time.Since(began); took > patience/2 {
			t.Errorf("it took %v", took)
		}
		if err == nil || !strings.Contains(err.Error(), `"m1"`) {
			t.Errorf("drain: %v", err)
		}
		release()
		n = n.restartBriefly() // waits for what is still under way, which may be the seal
		n.swept("m1")
		if snap := n.snapshot("m1"); snap.Status != plane.StatusInterrupted || snap.Text != "" && snap.Text != "text" {
			t.Errorf("%+v", snap)
		}
	})
}

func TestAKilledNodesStreamsAreSealedAfterItsNextStart(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Policy: patient()}, func(t *testing.T, n *running) {
		n.open("m1")
		n.push("m1", 0, "committed ")
		n.flush("m1")
		n.push("m1", 10, "lost")
		n.open("empty")
		n.whole("sealed", "sealed")
		live, auto := n.reads("m1", "plane=live"), n.reads("m1", "")
		n = n.restartBriefly()
		if snap := n.snapshot("m1"); snap.Status != plane.StatusStreaming || snap.Seq != 10 { // its producer may come back
			t.Errorf("at the start it is %+v", snap)
		}
		// None was told of an end that was not: the one looks elsewhere, the other comes back.
		if err := live.rest(); err != nil || live.end.Kind != plane.KindAbsent {
			t.Errorf("live: %+v, %v", live.end, err)
		}
		if err := auto.rest(); err == nil || auto.end != nil {
			t.Errorf("auto: %+v, %v", auto.end, err)
		}
		wantEnding(t, n, "m1", plane.StatusInterrupted, "committed ")
		wantEnding(t, n, "empty", plane.StatusInterrupted, "")
		wantEnding(t, n, "sealed", plane.StatusComplete, "sealed")
		// A reader that had seen more than was durable has all there is.
		if a := n.do(http.MethodGet, path("m1"), "", "Last-Event-ID", "14"); a.status != http.StatusNoContent {
			t.Errorf("beyond the durable end: %d %s", a.status, a.body)
		}
		if page, err := n.client.List(t.Context(), client.Query{Status: "streaming"}); err != nil || len(page.Streams) != 0 {
			t.Errorf("streaming still: %+v, %v", page, err)
		}
	})
}

func TestTheFileOfANodeThatDiedIsEnough(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: patient()})
	n.open("m1")
	n.push("m1", 0, "committed ")
	n.flush("m1")
	n.push("m1", 10, "lost")
	dir := t.TempDir() // as the disk was at the moment of the crash
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(n.sqliteFile() + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/rillkeep.db"+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := openNode(t, node.Config{Data: dir})
	wantEnding(t, other, "m1", plane.StatusInterrupted, "committed ")
}

func TestANodeRefusesWhatItCannotBe(t *testing.T) {
	t.Parallel()
	taken := openNode(t, node.Config{})
	bad := plane.DefaultPolicy()
	bad.Units = 0
	for name, c := range map[string]struct {
		cfg   node.Config
		words string
	}{
		"a name with a slash":  {node.Config{Name: "a/b"}, "slash"},
		"a policy":             {node.Config{Policy: bad}, "Units"},
		"an hourly check":      {node.Config{Keys: newKeys(t).Keys, Limits: router.Limits{Recheck: time.Hour}}, "Recheck"},
		"a negative linger":    {node.Config{Linger: -1}, "Linger"},
		"a port that is taken": {node.Config{Listen: taken.Addr().String()}, "listen"},
		"no port":              {node.Config{Listen: "127.0.0.1"}, "port"},
	} {
		if c.cfg.Listen == "" {
			c.cfg.Listen = "127.0.0.1:0"
		}
		c.cfg.Data = t.TempDir()
		n, err := node.Open(t.Context(), c.cfg)
		if err == nil {
			t.Errorf("%s: it runs", name)
			_ = n.Close()
		} else if !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
		// What was opened is let go of.
		if again, err := node.Open(t.Context(), node.Config{Listen: "127.0.0.1:0", Data: c.cfg.Data}); err != nil {
			t.Errorf("%s: the folder is not free: %v", name, err)
		} else if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}
