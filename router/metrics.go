package router

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/feed"
	"rillkeep.dev/rillkeep/store/lease"
)

// Metrics are one node's. They have a registry of their own, so that many nodes
// fit in one process.
type Metrics struct {
	registry *prometheus.Registry

	readers, framesSent, bytesSent atomic.Int64

	closed      *prometheus.CounterVec
	requests    *prometheus.CounterVec
	answers     sync.Map // of outcome: the requests' counters that there are, to be found without their labels
	ended       *prometheus.CounterVec
	checkpoints prometheus.Counter
	seals       prometheus.Counter
	units       prometheus.Counter
	latency     prometheus.Histogram
	retries     prometheus.Counter
	failures    prometheus.Counter
	wentBack    prometheus.Counter
	lost        prometheus.Counter
	replaced    prometheus.Counter
	generations *prometheus.CounterVec
	forwards    *prometheus.CounterVec
	ringDiffs   prometheus.Counter
	strangers   *prometheus.CounterVec
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
		wentBack:    counter("store_went_back_total", "Times that the store had lost of a stream what it had confirmed."),
		lost:        counter("texts_lost_total", "Streams that ended short: durable text was missing in the store."),
		replaced:    counter("replaced_characters_total", "Characters that became U+FFFD at the producer's door."),
		generations: labelled("generations_total", "Model calls that ended, by upstream and how their stream ended.", "upstream", "status"),
		forwards:    labelled("forwarded_total", "Requests sent to the node that has their stream, by what became of them: answered, misdirected, unreachable or abandoned.", "outcome"),
		ringDiffs:   counter("ring_differs_total", "Requests of nodes whose ring was another than this node's."),
		strangers:   labelled("peer_refused_total", "Requests to the listener for nodes that were let through to nothing, by reason.", "reason"),
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

// ObserveConnections adds how many connections clients have, and how many there was no
// room for. It is called once.
func (m *Metrics) ObserveConnections(open, turnedAway func() int64) {
	make := promauto.With(m.registry)
	make.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "rillkeep", Name: "connections", Help: "Connections of clients."},
		func() float64 { return float64(open()) })
	make.NewCounterFunc(prometheus.CounterOpts{
		Namespace: "rillkeep", Name: "connections_refused_total", Help: "Connections that there was no room for.",
	}, func() float64 { return float64(turnedAway()) })
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
	m.observeRelay(actors)
}

// observeRelay adds what the actors read of other nodes, and tell them.
func (m *Metrics) observeRelay(actors *actor.System) {
	make := promauto.With(m.registry)
	gauge := func(name, help string, read func(actor.Stats) int) {
		make.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "rillkeep", Subsystem: "relay", Name: name, Help: help},
			func() float64 { return float64(read(actors.Stats())) })
	}
	total := func(name, help string, read func(actor.Stats) int64, labels prometheus.Labels) {
		make.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "rillkeep", Subsystem: "relay", Name: name, Help: help, ConstLabels: labels,
		}, func() float64 { return float64(read(actors.Stats())) })
	}
	gauge("streams_attached", "Streams of other nodes that are attached here.", func(s actor.Stats) int { return s.Attached })
	gauge("readers", "Readers of attached streams.", func(s actor.Stats) int { return s.Readers })
	total("attaches_total", "Attempts to attach a stream.", func(s actor.Stats) int64 { return s.Attaches }, nil)
	total("reattached_total", "Times that an attach was replaced unnoticed.", func(s actor.Stats) int64 { return s.Reattached }, nil)
	for phase, read := range map[actor.Phase]func(actor.Stats) int64{
		actor.PhaseAttach:  func(s actor.Stats) int64 { return s.AttachFailed },
		actor.PhaseFrames:  func(s actor.Stats) int64 { return s.FramesFailed },
		actor.PhasePublish: func(s actor.Stats) int64 { return s.PublishFailed },
	} {
		total("failures_total", "Failures between nodes, by what was done.", read, prometheus.Labels{"phase": string(phase)})
	}
}

// ObserveLease adds what the keeper of the node's lease has seen. It is called
// once, for a node that has one.
func (m *Metrics) ObserveLease(stats func() lease.Stats) {
	make := promauto.With(m.registry)
	make.NewGaugeFunc(
		prometheus.GaugeOpts{Namespace: "rillkeep", Name: "lease_held", Help: "1 while the node's lease on the database may be trusted."},
		func() float64 {
			if stats().Held {
				return 1
			}
			return 0
		})
	counter := func(name, help string, read func(lease.Stats) int64) {
		make.NewCounterFunc(prometheus.CounterOpts{Namespace: "rillkeep", Name: name, Help: help},
			func() float64 { return float64(read(stats())) })
	}
	counter("lease_renewals_failed_total", "Renewals of the lease that failed.", func(s lease.Stats) int64 { return s.Failed })
	counter("streams_swept_total", "Streams of nodes without a lease sealed here.", func(s lease.Stats) int64 { return s.Swept })
	counter("streams_deleted_total", "Ended streams deleted here, by the retention.", func(s lease.Stats) int64 { return s.Deleted })
}

// ObserveFeed adds what is told to other nodes and heard of them. It is called
// once.
func (m *Metrics) ObserveFeed(out *feed.Publisher, in *feed.Receiver) {
	total := func(name, help string, read func() int64) {
		promauto.With(m.registry).NewCounterFunc(
			prometheus.CounterOpts{Namespace: "rillkeep", Subsystem: "feed", Name: name, Help: help},
			func() float64 { return float64(read()) })
	}
	total("published_total", "Changes of streams told to other nodes.", func() int64 { return out.Stats().Published })
	total("messages_total", "Messages in which they were told.", func() int64 { return out.Stats().Messages })
	total("superseded_total", "Changes that a newer one of the stream made needless to tell.", func() int64 { return out.Stats().Superseded })
	total("dropped_total", "Changes not told: too many waited, or no message holds them.", func() int64 {
		s := out.Stats()
		return s.Dropped + s.Skipped
	})
	total("send_failures_total", "Attempts to tell changes that failed.", func() int64 { return out.Stats().Failed })
	total("received_total", "Changes heard of other nodes.", func() int64 { return in.Stats().Received })
	total("malformed_total", "Messages heard that were none of the feed's.", func() int64 { return in.Stats().Malformed })
	total("gaps_total", "Times that messages of another node were missed.", func() int64 { return in.Stats().Gaps })
	total("out_of_order_total", "Messages heard again, or after a newer one.", func() int64 { return in.Stats().OutOfOrder })
	total("reconnects_total", "Times that the listening began again.", func() int64 { return max(0, in.Stats().Connects-1) })
}

// Checkpoint is a plane.Hooks.Checkpoint.
func (m *Metrics) Checkpoint(c plane.Checkpoint) {
	m.latency.Observe(c.Took.Seconds())
	m.retries.Add(float64(c.Attempts - 1))
	switch {
	case c.Err != nil:
		m.failures.Inc()
		if errors.Is(c.Err, plane.ErrWentBack) {
			m.wentBack.Inc()
		}
		if errors.Is(c.Err, plane.ErrTextLost) {
			m.lost.Inc()
		}
		return
	case c.Seal:
		m.seals.Inc()
	default:
		m.checkpoints.Inc()
	}
	m.units.Add(float64(c.Seq - c.From))
}

func (m *Metrics) forwarded(outcome string) { m.forwards.WithLabelValues(outcome).Inc() }

func (m *Metrics) generated(upstream, status string) {
	m.generations.WithLabelValues(upstream, status).Inc()
}

func (m *Metrics) ringDiffers() { m.ringDiffs.Inc() }

// PeerRefused is a peer.ServerConfig.Refused.
func (m *Metrics) PeerRefused(reason string) { m.strangers.WithLabelValues(reason).Inc() }

// Replaced is a plane.Hooks.Replaced.
func (m *Metrics) Replaced(_ string, n int64) { m.replaced.Add(float64(n)) }

// Ended counts a stream's end.
func (m *Metrics) Ended(status plane.Status) { m.ended.WithLabelValues(string(status)).Inc() }

// outcome is what requests are counted by.
type outcome struct {
	route  string
	status int
}

func (m *Metrics) request(route string, status int) {
	known, ok := m.answers.Load(outcome{route, status})
	if !ok {
		known, _ = m.answers.LoadOrStore(outcome{route, status}, m.requests.WithLabelValues(route, strconv.Itoa(status)))
	}
	known.(prometheus.Counter).Inc()
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
