package node_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
)

// The tests of this file measure, or look at the whole process: none of them runs
// beside another.

// dead joins readers that take nothing, each in another way. They leave with the
// test.
func (r *running) dead(ctx context.Context, id string, count int) {
	r.tb.Helper()
	for i := range count {
		conn, err := smallWindow(ctx, "tcp", r.Addr().String())
		if err != nil {
			r.tb.Fatal(err)
		}
		r.tb.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "GET %s?plane=%s HTTP/1.%d\r\nHost: 127.0.0.1\r\n\r\n", path(id), []string{"auto", "live"}[i%2], i/2%2)
	}
}

// delivers sends a stream a text at once and then delta by delta, and returns when
// so many readers have both.
func (r *running) delivers(ctx context.Context, id string, count int, text string) {
	r.tb.Helper()
	readers := make([]*reader, count)
	for i := range readers {
		var err error
		if readers[i], err = r.join(ctx, id, ""); err != nil {
			r.tb.Fatal(err)
		}
	}
	pos := plane.Units(text)
	allAt := func(pos int64) {
		var all errgroup.Group
		for _, rd := range readers {
			all.Go(func() error { return rd.until(pos) })
		}
		if err := all.Wait(); err != nil {
			r.tb.Fatal(err)
		}
	}
	r.pumpText(id, text)
	allAt(pos)
	for range 100 { // the readers are at the tip
		pos = r.push(id, pos, "one more ")
		allAt(pos)
	}
}

// Whoever waited for a dead reader would wait for the stall limit, which is longer
// than anything here takes.
func TestDeadReadersDelayNobodyElse(t *testing.T) {
	const dead, good = 40, 10
	n := openNode(t, node.Config{Limits: router.Limits{Stall: 4 * patience}})
	n.open("m1")
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	n.dead(ctx, "m1", dead)
	await(t, "the dead ones are connected", func() bool { return n.metrics()["rillkeep_readers"] == dead })
	n.delivers(ctx, "m1", good, strings.Repeat("0123456789abcdef", 500_000))
	if m := n.metrics(); m["rillkeep_readers"] != dead+good {
		t.Errorf("%v are connected at the end", m["rillkeep_readers"])
	}
}

func TestAReaderThatTakesNothingIsCut(t *testing.T) {
	const dead, good = 40, 10
	log := &record{}
	n := openNode(t, node.Config{Limits: router.Limits{Stall: 5 * time.Second}, Logger: log.logger()})
	n.open("m1")
	base := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n.dead(ctx, "m1", dead)
	var arrived, ended errgroup.Group
	var readers []*reader
	for range good {
		r, err := n.join(ctx, "m1", "")
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
		arrived.Go(func() error { return r.until(8_000_000) })
	}
	await(t, "all are connected", func() bool { return n.metrics()["rillkeep_readers"] == dead+good })
	began := time.Now()
	n.pumpText("m1", strings.Repeat("0123456789abcdef", 500_000))
	if err := arrived.Wait(); err != nil {
		t.Error(err)
	}
	await(t, "the dead ones are cut", func() bool {
		return n.metrics()[`rillkeep_readers_closed_total{reason="stall"}`] == dead
	})
	t.Logf("the dead ones are cut after %v", time.Since(began))
	await(t, "each has its line in the log", func() bool {
		return strings.Count(log.String(), `"level":"INFO","msg":"reader left","streamId":"m1","reason":"stall"}`) == dead
	})
	n.seal("m1")
	for _, r := range readers {
		ended.Go(r.rest)
	}
	if err := ended.Wait(); err != nil {
		t.Error(err)
	}
	n.http.CloseIdleConnections()
	await(t, "nothing of the readers is left", func() bool {
		return n.metrics()["rillkeep_readers"] == 0 && runtime.NumGoroutine() <= base+5
	})
}
