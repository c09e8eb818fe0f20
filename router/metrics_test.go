package router

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/store/feed"
)

func TestTheFeedsMetricsAreItsStatistics(t *testing.T) {
	m := NewMetrics()
	down := true
	out, err := feed.NewPublisher(feed.PublisherConfig{Send: func(context.Context, []string) error {
		if down {
			return errors.New("down")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	in, err := feed.NewReceiver(feed.ReceiverConfig{Changed: func(feed.Change) {}, Missed: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	m.ObserveFeed(out, in)
	out.Publish(feed.Change{ID: strings.Repeat("x", feed.MaxMessage)}) // no message holds it
	for n := range 7 {
		out.Publish(feed.Change{ID: fmt.Sprint(n % 3), Seq: int64(n)})
	}
	ended, end := context.WithCancel(t.Context())
	end()
	out.Run(ended) // fails, once or twice
	down = false
	out.Run(ended) // sends what is left
	for range 4 {  // the first, and three again
		in.Connected()
	}
	for _, number := range []int{1, 2, 4, 6, 8, 10, 12, 3, 1} {
		in.Message(fmt.Sprintf(`{"changes":[{"id":"s","seq":1}],"producer":"p","seq":%d}`, number))
	}
	in.Message("somebody else's")

	found, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, family := range found {
		if name, ok := strings.CutPrefix(family.GetName(), "rillkeep_feed_"); ok {
			got[name] = family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	want := map[string]float64{
		"published_total": 3, "messages_total": 1, "superseded_total": 4, "dropped_total": 1, "send_failures_total": float64(out.Stats().Failed),
		"received_total": 9, "malformed_total": 1, "gaps_total": 3 + 5, "out_of_order_total": 2, "reconnects_total": 3,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
