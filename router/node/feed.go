package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/store/feed"
)

// How often the node looks for streams of its own that were asked to stop, in
// case nobody told it: a stream whose producer is silent learns of it by nothing
// else.
const (
	cancelPoll = 5 * time.Second
	cancelTime = 5 * time.Second // for one look
)

// bus is a store that several nodes share, and that carries messages between
// them.
type bus interface {
	Notify(ctx context.Context, messages []string) error
	Listen(ctx context.Context, to feed.Listener)
	Cancelled(ctx context.Context, node string) (ids []string, err error)
}

// news is the node's part in the change feed.
type news struct {
	node  *Node
	bus   bus
	token string // the node's, node/incarnation

	out  *feed.Publisher
	in   *feed.Receiver
	lost bool          // a listener's state, of its goroutine
	look chan struct{} // holds one; cancels may have been missed

	stop    context.CancelFunc
	running sync.WaitGroup
}

// openNews joins the change feed, if the store has one. What is published from
// then on is sent once the news run.
func (n *Node) openNews(token string) error {
	b, ok := n.store.(bus)
	if !ok {
		return nil
	}
	w := &news{node: n, bus: b, token: token, look: make(chan struct{}, 1)}
	var err error
	if w.out, err = feed.NewPublisher(feed.PublisherConfig{Send: b.Notify}); err != nil {
		return err
	}
	w.in, err = feed.NewReceiver(feed.ReceiverConfig{
		Self:    w.out.ID(),
		Changed: func(c feed.Change) { n.router.Heard(c) },
		Missed:  w.missed,
	})
	n.news = w
	return err
}

// run begins to send and to hear.
func (w *news) run() {
	w.node.router.Listening(false)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.running.Go(func() { w.out.Run(ctx) })
	w.running.Go(func() { w.bus.Listen(ctx, w) })
	w.running.Go(func() { w.watchCancels(ctx) })
}

// close sends what is left and waits.
func (w *news) close() {
	if w == nil || w.stop == nil {
		return
	}
	w.stop()
	w.running.Wait()
}

// Connected implements feed.Listener.
func (w *news) Connected() {
	if w.lost {
		w.lost = false
		w.node.log.Info("changes of other nodes are heard again")
	}
	w.node.router.Listening(true)
	w.in.Connected()
}

// Message implements feed.Listener.
func (w *news) Message(text string) { w.in.Message(text) }

// Lost implements feed.Listener.
func (w *news) Lost(err error) {
	w.lost = true
	w.node.log.Warn("changes of other nodes are not heard; followers look for themselves until they are", "error", err)
	w.node.router.Listening(false)
}

func (w *news) missed() {
	w.node.router.Missed()
	note(w.look)
}

// watchCancels looks now and then, and at once when something may have been
// missed, for streams that were asked to stop.
func (w *news) watchCancels(ctx context.Context) {
	failing := false
	for {
		select {
		case <-time.After(cancelPoll - rand.N(cancelPoll/5)):
		case <-w.look:
		case <-ctx.Done():
			return
		}
		err := w.lookForCancels(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			w.node.log.Warn("could not look for streams that were asked to stop", "error", err)
		}
		failing = err != nil
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}
	}
}

func (w *news) lookForCancels(ctx context.Context) error {
	if live, _ := w.node.actors.Counts(); live == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	ids, err := w.bus.Cancelled(ctx, w.token)
	for _, id := range ids {
		if s, ok := w.node.actors.Stream(id); ok {
			s.Cancel()
		}
	}
	return err
}

// publish is for router.Config, nil if nobody listens.
func (w *news) publish() func(feed.Change) {
	if w == nil {
		return nil
	}
	return w.out.Publish
}

// announcing adds to hooks that each durable advance, and each end however late, is
// announced.
func (n *Node) announcing(hooks plane.Hooks) plane.Hooks {
	checkpoint, ended := hooks.Checkpoint, hooks.Ended
	hooks.Checkpoint = func(c plane.Checkpoint) {
		checkpoint(c)
		if c.Err == nil && !c.Seal { // an end is told with its status
			n.router.Announce(feed.Change{ID: c.StreamID, Seq: c.Seq})
		}
	}
	hooks.Ended = func(s *plane.Stream, end plane.Ending) {
		ended(s, end)
		if end.Err == nil || errors.Is(end.Err, plane.ErrTextLost) {
			n.router.Announce(feed.Change{ID: s.ID(), Seq: end.Seq, Epoch: s.Epoch(), Status: end.Status})
		}
	}
	hooks.Repaired = func(id string, row plane.Row) {
		n.router.Announce(feed.Change{ID: id, Seq: row.Seq, Epoch: row.Epoch, Status: row.Status})
	}
	return hooks
}

// observe adds the feed's metrics.
func (w *news) observe(m *router.Metrics) {
	if w != nil {
		m.ObserveFeed(w.out, w.in)
	}
}
