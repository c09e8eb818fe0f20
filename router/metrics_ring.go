package router

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rillkeep.dev/rillkeep/ring"
)

// ObserveRing adds what this node knows of the others. It is called once, for a node
// of a cluster.
func (m *Metrics) ObserveRing(stats func() ring.Stats) {
	make := promauto.With(m.registry)
	gauge := func(name, help string, labels prometheus.Labels, read func(ring.Stats) int) {
		make.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "rillkeep", Subsystem: "ring", Name: name, Help: help, ConstLabels: labels,
		}, func() float64 { return float64(read(stats())) })
	}
	total := func(name, help string, labels prometheus.Labels, read func(ring.Stats) uint64) {
		make.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "rillkeep", Subsystem: "ring", Name: name, Help: help, ConstLabels: labels,
		}, func() float64 { return float64(read(stats())) })
	}
	for state, read := range map[ring.State]func(ring.Stats) int{
		ring.Joining:  func(s ring.Stats) int { return s.Joining },
		ring.Active:   func(s ring.Stats) int { return s.Active },
		ring.Draining: func(s ring.Stats) int { return s.Draining },
	} {
		gauge("members", "Members of the cluster, by state.", prometheus.Labels{"state": state.String()}, read)
	}
	gauge("missing", "Members of the last hour that are gone and did not say so.", nil, func(s ring.Stats) int { return s.Missing })
	gauge("unreached", "Nodes that could not be joined; above 0 for long, the cluster is split, or the name of a node out of date.",
		nil, func(s ring.Stats) int { return s.Unreached })
	gauge("health", "0 while this node answers the others in time, up to 7.", nil, func(s ring.Stats) int { return s.Health })
	total("views_total", "Changes of what is known of the members.", nil, func(s ring.Stats) uint64 { return s.Views })
	total("rejoins_total", "Nodes joined, at the start and again.", nil, func(s ring.Stats) uint64 { return s.Rejoins })
	total("rejoin_failures_total", "Attempts to join that failed.", nil, func(s ring.Stats) uint64 { return s.RejoinsFailed })
	for reason, read := range map[string]func(ring.Stats) uint64{
		"secret":    func(s ring.Stats) uint64 { return s.RefusedSecret },
		"cluster":   func(s ring.Stats) uint64 { return s.RefusedCluster },
		"settings":  func(s ring.Stats) uint64 { return s.RefusedSettings },
		"name":      func(s ring.Stats) uint64 { return s.RefusedName },
		"malformed": func(s ring.Stats) uint64 { return s.RefusedMalformed },
	} {
		total("refused_total", "Who was kept out, or kept this node out, for each attempt and packet.",
			prometheus.Labels{"reason": reason}, read)
	}
}
