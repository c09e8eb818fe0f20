package router

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// Metrics are one node's. They have a registry of their own, so that many nodes
// fit in one process.
type Metrics struct {
	registry *prometheus.Registry

	readers, framesSent, bytesSent atomic.Int64

	closed      *prometheus.CounterVec
	requests    *prometheus.CounterVec
	ended       *prometheus.CounterVec
	checkpoints prometheus.Counter
	seals       prometheus.Counter
	units       prometheus.Counter
	latency     prometheus.Histogram
	retries     prometheus.Counter
	failures    prometheus.Counter
	replaced    prometheus.Counter
}

// NewMetrics returns a node's metrics, with those of the process.
func NewMetrics() *Metrics {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	make := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return make.NewCounter(prometheus.CounterOpts{Namespace: "rillkeep", Name: name, Help: help})
	}
	labelled := func(name, help string, labels ...string) *prometheus.CounterVec {
		return make.NewCounterVec(prometheus.CounterOpts{Namespace: "rillkeep", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry:    reg,
		closed:      labelled("readers_closed_total", "Readers' connections ended, by reason.", "reason"),
		requests:    labelled("http_requests_total", "Requests answered, by route and status.", "route", "status"),
		ended:       labelled("streams_ended_total", "Streams ended here, by status.", "status"),
		checkpoints: counter("checkpoints_total", "Checkpoints that reached the store."),
		seals:       counter("seals_total", "Seals that reached the store."),
		units:       counter("checkpoint_units_total", "UTF-16 code units made durable."),
		retries:     counter("checkpoint_retries_total", "Attempts beyond the first."),
		failures:    counter("checkpoint_failures_total", "Checkpoints and seals that used up their retries."),
		replaced:    counter("replaced_characters_total", "Characters that became U+FFFD at the producer's door."),
		latency: make.NewHistogram(prometheus.HistogramOpts{
			Namespace: "rillkeep", Name: "checkpoint_seconds", Help: "Duration of checkpoints and seals, retries included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}),
	}
	gauge := func(name, help string, v *atomic.Int64) {
		make.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "rillkeep", Name: name, Help: help},
			func() float64 { return float64(v.Load()) })
	}
	total := func(name, help string, v *atomic.Int64) {
		make.NewCounterFunc(prometheus.CounterOpts{Namespace: "rillkeep", Name: name, Help: help},
			func() float64 { return float64(v.Load()) })
	}
	gauge("readers", "Readers connected now.", &m.readers)
	total("frames_sent_total", "Frames written to readers.", &m.framesSent)
	total("bytes_sent_total", "Bytes of frames written to readers.", &m.bytesSent)
	return m
}

// Observe adds what the actors hold, and what its text takes. It is called once.
func (m *Metrics) Observe(actors *actor.System, text *plane.Budget) {
	gauge := func(name, help string, read func() int) {
		promauto.With(m.registry).NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "rillkeep", Name: name, Help: help},
			func() float64 { return float64(read()) })
	}
	gauge("streams_open", "Streams that are live here.", func() int { live, _ := actors.Counts(); return live })
	gauge("text_bytes", "Memory that the text of streams takes.", func() int { return int(text.Used()) })
	gauge("streams_lingering", "Ended streams that can still be joined.", func() int { _, n := actors.Counts(); return n })
}

// Checkpoint is a plane.Hooks.Checkpoint.
func (m *Metrics) Checkpoint(c plane.Checkpoint) {
	m.latency.Observe(c.Took.Seconds())
	m.retries.Add(float64(c.Attempts - 1))
	switch {
	case c.Err != nil:
		m.failures.Inc()
		return
	case c.Seal:
		m.seals.Inc()
	default:
		m.checkpoints.Inc()
	}
	m.units.Add(float64(c.Seq - c.From))
}

// Replaced is a plane.Hooks.Replaced.
func (m *Metrics) Replaced(_ string, n int64) { m.replaced.Add(float64(n)) }

// Ended counts a stream's end.
func (m *Metrics) Ended(status plane.Status) { m.ended.WithLabelValues(string(status)).Inc() }

func (m *Metrics) request(route string, status int) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
}

// admitReader counts a reader in, unless there are as many as may be.
func (m *Metrics) admitReader(limit int) bool {
	if m.readers.Add(1) > int64(limit) {
		m.readers.Add(-1)
		return false
	}
	return true
}

func (m *Metrics) readerLeft() { m.readers.Add(-1) }

func (m *Metrics) readerClosed(reason string) { m.closed.WithLabelValues(reason).Inc() }

func (m *Metrics) sent(frames, bytes int) {
	m.framesSent.Add(int64(frames))
	m.bytesSent.Add(int64(bytes))
}
