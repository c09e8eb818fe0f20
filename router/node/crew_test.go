package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
)

// stacks answers what counts the goroutines that have a call of a method on their
// stack. It makes room for all stacks once they do not fit any more.
func stacks() (count func(method string) int) {
	room := make([]byte, 1<<20)
	return func(method string) int {
		n := runtime.Stack(room, true)
		for ; n == len(room); n = runtime.Stack(room, true) {
			room = make([]byte, 2*len(room))
		}
		return bytes.Count(room[:n], []byte("router."+method+"("))
	}
}

func TestReadersAtTheTipShareGoroutines(t *testing.T) {
	const readers = 300
	n := openNode(t, node.Config{Limits: router.Limits{Ping: 100 * time.Millisecond}})
	n.open("m1")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var arrived, ended errgroup.Group
	all := make([]*reader, readers)
	for i := range all {
		r, err := n.join(ctx, "m1", "plane="+[]string{"auto", "live"}[i%2])
		if err != nil {
			t.Fatal(err)
		}
		all[i] = r
	}
	goroutines := stacks()
	shared := func() bool { // among more than one, and far fewer than there are readers
		crews := goroutines("(*crew).run")
		return goroutines("(*delivery).run") == 0 && 1 < crews && crews < readers/50
	}
	await(t, "all are at the tip", shared)
	for _, r := range all {
		arrived.Go(func() error { return r.until(5) })
	}
	n.push("m1", 0, "text ")
	if err := arrived.Wait(); err != nil {
		t.Error(err)
	}
	await(t, "all are at the tip again", shared)
	n.seal("m1")
	for _, r := range all {
		ended.Go(r.rest)
	}
	if err := ended.Wait(); err != nil {
		t.Error(err)
	}
	await(t, "no crew is left", func() bool { return goroutines("(*crew).run") == 0 })
}

// TestReadersComeAndGoWhileTheirStreamRuns moves readers between crews and their
// own goroutines: they join anywhere, pause, and leave at any time.
func TestReadersComeAndGoWhileTheirStreamRuns(t *testing.T) {
	t.Parallel()
	const readers, deltas = 150, 400
	n := openNode(t, node.Config{Limits: router.Limits{Ping: 20 * time.Millisecond, Recheck: 30 * time.Millisecond}})
	n.open("m1")
	delta := strings.Repeat("0123456789 é😀 ", 40)
	size := plane.Units(delta)
	whole := strings.Repeat(delta, deltas)
	transport := &http.Transport{DialContext: smallWindow}
	defer transport.CloseIdleConnections()
	all, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var group errgroup.Group
	group.SetLimit(readers)
	produced := make(chan struct{})
	for i := range readers {
		group.Go(func() error {
			time.Sleep(rand.N(time.Second)) // somewhere in the run
			from := rand.Int64N(size * deltas)
			ctx, leave := context.WithCancel(all)
			defer leave()
			r, err := joinAs(ctx, &http.Client{Transport: transport}, fmt.Sprintf("%s/v1/streams/m1?from=%d", n.URL(), from))
			if err != nil {
				return err
			}
			var got strings.Builder
			r.into = &got
			if i%3 == 0 {
				time.AfterFunc(rand.N(time.Second), leave)
			}
			if i%4 == 0 { // the window fills
				if err = r.until(min(r.from+size, size)); err == nil {
					select {
					case <-produced:
					case <-ctx.Done():
					}
				}
			}
			if err == nil {
				err = r.rest()
			}
			if err != nil && !(i%3 == 0 && errors.Is(ctx.Err(), context.Canceled)) {
				return fmt.Errorf("reader %d from %d: %w", i, from, err)
			}
			if want := plane.Skip(whole, r.from); !strings.HasPrefix(want, got.String()) || err == nil && len(want) != got.Len() {
				return fmt.Errorf("reader %d from %d: %d bytes of other text", i, from, got.Len())
			}
			return nil
		})
	}
	for i := range int64(deltas) {
		n.push("m1", i*size, delta)
		time.Sleep(time.Millisecond) // a producer's pace
	}
	n.seal("m1")
	close(produced)
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	await(t, "all have left", func() bool { return n.metrics()["rillkeep_readers"] == 0 })
}
