package router

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/ring"
)

func TestMembersAreCountedInEachStateThatThereIs(t *testing.T) {
	m := NewMetrics()
	m.ObserveRing(func() ring.Stats { return ring.Stats{Joining: 1, Active: 2, Waiting: 3, Draining: 4} })
	found, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range found {
		if family.GetName() == "rillkeep_ring_members" {
			for _, metric := range family.GetMetric() {
				got[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
			}
		}
	}
	want := map[string]float64{"joining": 1, "active": 2, "waiting": 3, "draining": 4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
