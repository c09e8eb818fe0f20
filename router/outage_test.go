package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/router/peer"
)

// partner is two, whose other node is there or not.
type partner struct {
	two
	down, gone *atomic.Bool
}

func (p partner) Has(member string) bool { return p.two.Has(member) && !p.gone.Load() }

func (p partner) Do(context.Context, string, *http.Request) (*http.Response, error) {
	if p.down.Load() {
		return nil, fmt.Errorf("dial: %w", peer.ErrUnreachable)
	}
	return &http.Response{StatusCode: http.StatusNoContent, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// told is what a log says at its higher levels.
type told struct{ bytes.Buffer }

func (l *told) take() (lines []string) {
	defer l.Reset()
	for line := range strings.Lines(l.String()) {
		level, _, _ := strings.Cut(strings.TrimPrefix(line, "level="), " ")
		lines = append(lines, level)
	}
	return lines
}

func (l *told) want(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := l.take(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s the log says %v, want %v", when, got, want)
	}
}

func tellingOne(t *testing.T) (*Router, partner, *told) {
	t.Helper()
	log := new(told)
	r := oneOfTwo(t, Config{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))})
	p := partner{down: new(atomic.Bool), gone: new(atomic.Bool)}
	r.cfg.Cluster = p
	return r, p, log
}

// attachAll attaches so many streams, as readers' retries do.
func attachAll(t *testing.T, r *Router, n int) {
	t.Helper()
	for i := range n {
		id := fmt.Sprint("m", i)
		if _, _, err := r.Attach(t.Context(), id, 0, 0); err != nil {
			r.RelayFailed(actor.Failure{Phase: actor.PhaseAttach, StreamID: id, Err: err})
		}
	}
}

func TestANodeThatCannotBeAskedIsOneWarningHoweverManyReadersItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p, log := tellingOne(t)
		attachAll(t, r, 3)
		log.take() // what it answered was no stream
		time.Sleep(time.Minute)

		p.down.Store(true)
		attachAll(t, r, 1000)
		log.want(t, "down", "WARN")
		if n := unreachable(t, r.cfg.Metrics); n != 1000 {
			t.Errorf("counted %v", n)
		}
		for range 100 {
			time.Sleep(time.Second)
			attachAll(t, r, 10)
		}
		log.want(t, "down for long")

		p.down.Store(false)
		if _, err := r.send(t.Context(), "m1", "n/2", where(t)); err != nil {
			t.Fatal(err)
		}
		if said := log.String(); !strings.Contains(said, "failed=2000") || !strings.Contains(said, "member=n/2") {
			t.Errorf("it says %s", said)
		}
		log.want(t, "back", "INFO")
	})
}

// unreachable is how many requests were counted that did not get there.
func unreachable(t *testing.T, m *Metrics) (n float64) {
	t.Helper()
	found, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range found {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "rillkeep_forwarded_total" && metric.GetLabel()[0].GetValue() == "unreachable" {
				n += metric.GetCounter().GetValue()
			}
		}
	}
	return n
}

func where(t *testing.T) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, peerURL("m1", "/where"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestANodeThatAnswersEveryOtherTimeIsLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p, log := tellingOne(t)
		for i := range 1000 { // 100 s
			p.down.Store(i%2 == 0)
			_, _ = r.send(t.Context(), "m1", "n/2", where(t))
			time.Sleep(100 * time.Millisecond)
		}
		if got := len(log.take()); got != 20 {
			t.Errorf("%d lines", got)
		}
	})
}

func TestANodeThatIsGoneIsNotLoggedNorKept(t *testing.T) {
	r, p, log := tellingOne(t)
	p.down.Store(true)
	attachAll(t, r, 1)
	log.want(t, "down", "WARN")
	p.gone.Store(true)
	attachAll(t, r, 10)
	log.want(t, "gone")
	if n := len(r.outages.of); n != 0 {
		t.Errorf("%d are kept", n)
	}
}

func TestWhatElseARelayFailsByIsLoggedNowAndThenWithHowOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, log := tellingOne(t)
		for range 1000 { // 100 s
			r.RelayFailed(actor.Failure{Phase: actor.PhaseFrames, StreamID: "m1", Err: errors.New("gap")})
			time.Sleep(100 * time.Millisecond)
		}
		if said := log.String(); strings.Count(said, "others=99 ")+strings.Count(said, "others=99\n") != 9 {
			t.Errorf("it says %s", said)
		}
		log.want(t, "after 100 s", "WARN", "WARN", "WARN", "WARN", "WARN", "WARN", "WARN", "WARN", "WARN", "WARN")
	})
}
