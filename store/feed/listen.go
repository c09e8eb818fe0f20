package feed

import (
	"context"
	"math/rand/v2"
	"time"
)

// What bounds a session. One that is dead without a word is noticed within quiet
// and pingTime.
const (
	dialTime   = 10 * time.Second // to begin one
	quiet      = 5 * time.Second  // without a message, before it is asked
	pingTime   = 5 * time.Second  // to answer
	minBackoff = 250 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// Session is one connection that hears messages.
type Session interface {
	// Receive waits for a message. When its context ends the session is as good
	// as before.
	Receive(ctx context.Context) (message string, err error)

	Ping(ctx context.Context) error
	Close()
}

// Listener is told what is heard, by one goroutine.
type Listener interface {
	// Connected says that from now on everything is heard, until Lost. What was
	// sent before may have been missed.
	Connected()

	Message(text string)

	// Lost says that nothing is heard until Connected: once, also if a first
	// session can't be had.
	Lost(err error)
}

// Listen hears messages until ctx is done. It begins a session by dial, and
// another, after a pause of up to 250 ms to 30 s, whenever one is lost.
func Listen(ctx context.Context, dial func(context.Context) (Session, error), to Listener) {
	lost := false
	for failed := 0; ; failed++ {
		began := time.Now()
		connected, err := attend(ctx, dial, to)
		if ctx.Err() != nil {
			return
		}
		if connected || !lost {
			lost = true
			to.Lost(err)
		}
		if time.Since(began) > maxBackoff {
			failed = 0
		}
		select {
		case <-time.After(backoff(failed)):
		case <-ctx.Done():
			return
		}
	}
}

// backoff is a pause at random, so that the nodes of a database that is back
// don't all come at once.
func backoff(failed int) time.Duration {
	return rand.N(min(maxBackoff, minBackoff<<min(failed, 20)))
}

// attend hears messages of one session, and answers why it ended.
func attend(ctx context.Context, dial func(context.Context) (Session, error), to Listener) (connected bool, err error) {
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	session, err := dial(dialing)
	cancel()
	if err != nil {
		return false, err
	}
	defer session.Close()
	to.Connected()
	for {
		message, silent, err := receive(ctx, session)
		switch {
		case err == nil:
			to.Message(message)
			continue
		case !silent:
			return true, err
		}
		asking, cancel := context.WithTimeout(ctx, pingTime)
		err = session.Ping(asking)
		cancel()
		if err != nil {
			return true, err
		}
	}
}

// receive waits for a message. silent says that there was none for a while.
func receive(ctx context.Context, session Session) (message string, silent bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	message, err = session.Receive(waiting)
	return message, waiting.Err() != nil && ctx.Err() == nil, err
}
