// Package faulttest holds live streams over a PostgreSQL that fails to what is
// promised of them: the durable text is at all times a prefix of what was
// produced, no reader is told more than the store has, and in the end it has all
// and no row says streaming.
package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// patience bounds what a test waits for. Nothing that works takes as long.
const patience = time.Minute

// beat is how often each stream gets a delta.
const beat = 40 * time.Millisecond

// policy gives up on a call and tries again sooner than one would in earnest.
func policy() plane.Policy {
	p := plane.DefaultPolicy()
	p.Units, p.Interval, p.MaxBackoff = 128, 200*time.Millisecond, 400*time.Millisecond
	p.Retries, p.RetryDelay, p.StoreTimeout = 2, 20*time.Millisecond, time.Second
	return p
}

// fleet is streams that are produced and read on a node of their own.
type fleet struct {
	t       *testing.T
	keeping keeping
	system  *actor.System
	streams []*stream
	db      *pgxpool.Pool   // the database past whatever breaks
	enough  context.Context // ends when enough was produced
	stop    context.CancelFunc
	work    sync.WaitGroup

	over     context.Context // ends when nothing is looked at any more
	lookAway context.CancelFunc
	looking  sync.WaitGroup

	mu     sync.Mutex // guards below
	rounds []plane.Checkpoint
}

// stream is one of a fleet's.
type stream struct {
	id    string
	told  atomic.Int64 // the most that anybody was told is durable
	mu    sync.Mutex   // guards text
	text  strings.Builder
	seen  int64 // the row's length when it was looked at last
	ended error // what its producer was told at the end
}

// launch starts a node over the database of storeURL, n streams, and a look at
// their rows by way of directURL.
func launch(t *testing.T, policy plane.Policy, keeping keeping, n int, storeURL, directURL string) *fleet {
	t.Helper()
	f := &fleet{t: t, keeping: keeping}
	f.enough, f.stop = context.WithCancel(context.Background())
	f.over, f.lookAway = context.WithCancel(context.Background())
	cfg, err := pgxpool.ParseConfig(directURL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1
	if f.db, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := f.db.Exec(t.Context(), keeping.prepare); err != nil { // before there are no more connections
		t.Fatal(err)
	}
	s, err := keeping.open(t.Context(), storeURL)
	if err != nil {
		t.Fatal(err)
	}
	f.system, err = actor.New(actor.Config{
		Plane: plane.Config{Store: s, Policy: policy, Hooks: plane.Hooks{Checkpoint: f.reported}},
		Node:  "n1/boot1", Repair: 100 * time.Millisecond,
		Authorize: func(context.Context, actor.Access) (bool, error) { return true, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.stop()
		f.lookAway()
		f.work.Wait()
		f.looking.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(f.system.Close(ctx), s.Close(ctx)); err != nil {
			t.Error(err)
		}
		f.db.Close()
	})
	const producers = 8
	for p := range producers {
		var mine []*stream
		for i := p; i < n; i += producers {
			mine = append(mine, &stream{id: fmt.Sprintf("s%03d", i)})
		}
		f.streams = append(f.streams, mine...)
		f.work.Go(func() { f.produce(mine) })
	}
	f.looking.Go(f.watch)
	return f
}

func (f *fleet) reported(c plane.Checkpoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rounds = append(f.rounds, c)
}

// produce opens streams, one a beat, adds to all that are open, and closes them
// when enough was produced.
func (f *fleet) produce(streams []*stream) {
	ticks := time.NewTicker(beat)
	defer ticks.Stop()
	var live []*plane.Stream
	rest := make([]string, len(streams)) // of a piece that has begun
	for going := true; going || len(live) < len(streams); {
		select {
		case <-f.enough.Done():
			going = false
		case <-ticks.C:
		}
		if n := len(live); n < len(streams) {
			if s := f.open(streams[n]); s != nil {
				live = append(live, s)
			}
		}
		for i, s := range live {
			rest[i] = f.push(streams[i], s, rest[i])
		}
	}
	var ends sync.WaitGroup
	for i, s := range live {
		ends.Go(func() {
			for rest[i] != "" {
				rest[i] = f.push(streams[i], s, rest[i])
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, streams[i].ended = s.Close(ctx)
		})
	}
	ends.Wait()
}

// open claims a stream, or answers nil if the store does not answer now. That
// somebody else has it is never so.
func (f *fleet) open(of *stream) *plane.Stream {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := f.system.Open(ctx, plane.Claim{ID: of.id})
	if err == nil {
		f.work.Go(func() { f.read(of) })
		return s
	}
	if plane.Refused(err) {
		f.t.Errorf("open %s: %v", of.id, err)
	}
	return nil
}

// push adds a part of what is said, cut wherever, also inside a character.
func (f *fleet) push(of *stream, s *plane.Stream, rest string) string {
	if rest == "" {
		rest = fmt.Sprintf("%s at %d says 😀, naïve 🐘 and 漢字𝄞. ", of.id, s.State().Seq)
		of.mu.Lock()
		of.text.WriteString(rest)
		of.mu.Unlock()
	}
	n := min(len(rest), 1+rand.IntN(24))
	if err := s.Push(context.Background(), rest[:n]); err != nil {
		f.t.Errorf("push to %s: %v", of.id, err)
	}
	return rest[n:]
}

// read follows a stream and notes what it is told is durable.
func (f *fleet) read(of *stream) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	cursor, err := f.system.Subscribe(ctx, actor.Access{StreamID: of.id})
	if err != nil {
		f.t.Error(err)
		return
	}
	var text strings.Builder
	for frame, err := range cursor.Frames(ctx) {
		switch {
		case err != nil:
			f.t.Errorf("read %s: %v", of.id, err)
		case frame.Kind == plane.KindChunk:
			text.WriteString(frame.Text)
		case frame.Kind == plane.KindDurable, frame.Kind == plane.KindEnd:
			of.told.Store(max(of.told.Load(), frame.Seq))
		case frame.Terminal():
			f.t.Errorf("the reader of %s got %+v", of.id, frame)
		}
	}
	if all := of.produced(); text.String() != all {
		f.t.Errorf("the reader of %s has %q of %q", of.id, text.String(), all)
	}
}

func (s *stream) produced() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
