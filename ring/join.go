package ring

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// joinsAtOnce bounds how many peers are asked at the same time.
const joinsAtOnce = 8

// joinsEnough is for how long Open waits for other seeds when one took it in.
const joinsEnough = 250 * time.Millisecond

// enter joins the seeds for the first time. A refusal by all that answer is final,
// but a connection that is closed may as well be a node that was just ending: it is
// asked once more.
func (r *Ring) enter(ctx context.Context) error {
	joined, err := r.joinMissing(ctx, joinsEnough)
	if joined == 0 && errors.Is(err, ErrCluster) {
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		joined, err = r.joinMissing(ctx, joinsEnough)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if joined == 0 && refusedBy(err) != nil {
		return err
	}
	if err != nil {
		r.cfg.Log.Warn("ring: some peers could not be joined, and will be tried again", "joined", joined, "error", err)
	}
	return r.claim(ctx)
}

// firstRejoin is the first pause between attempts to join, which grows to
// RejoinInterval: nodes that start together find each other in a moment.
const firstRejoin = 500 * time.Millisecond

// rejoin asks who is missing, for ever.
func (r *Ring) rejoin() {
	for every := min(firstRejoin, r.cfg.RejoinInterval); ; every = min(2*every, r.cfg.RejoinInterval) {
		interval := time.Duration(float64(every) * (0.7 + 0.6*rand.Float64()))
		if pause(r.life, interval) != nil {
			return
		}
		joined, err := r.joinMissing(r.life, 0)
		if joined > 0 {
			r.cfg.Log.Info("ring: joined again", "peers", joined)
		}
		if err != nil && r.life.Err() == nil {
			r.cfg.Log.Debug("ring: peers still missing", "error", err)
		}
	}
}

// joinMissing joins the seeds and the members of the last hour that aren't
// members. It answers how many took this node in, and why others didn't. With
// enough it waits for others only so long after the first did; they are asked
// nonetheless.
func (r *Ring) joinMissing(ctx context.Context, enough time.Duration) (joined int, err error) {
	peers, err := r.peers(ctx)
	answers := make(chan error, len(peers))
	todo := make(chan string, len(peers))
	for _, peer := range peers {
		todo <- peer
	}
	close(todo)
	for range min(joinsAtOnce, len(peers)) {
		if !r.start(func() {
			for peer := range todo {
				if ctx.Err() != nil || r.life.Err() != nil {
					return
				}
				answers <- r.join(peer)
			}
		}) {
			return 0, ErrClosed
		}
	}
	fails := []error{err}
	var waited <-chan time.Time
	for range peers {
		select {
		case err := <-answers:
			if err != nil {
				fails = append(fails, err)
				continue
			}
			if joined++; joined == 1 && enough > 0 {
				waited = time.After(enough)
			}
			continue
		case <-waited:
		case <-ctx.Done():
		}
		break
	}
	r.unreached.Store(int64(len(fails) - 1))
	return joined, errors.Join(fails...)
}

// peers answers whom to join, in no order.
func (r *Ring) peers(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	seeds, err := r.cfg.Seeds.Peers(ctx)
	if err != nil {
		err = fmt.Errorf("find seeds: %w", err)
	}
	absent, present := r.roster.absent(r.cfg.RejoinMemory)
	present[r.Addr()] = true
	var peers []string
	for _, addr := range append(seeds, absent...) {
		peer, ok := canonical(addr)
		if !ok {
			err = errors.Join(err, fmt.Errorf("seed %q is not IP:port", addr))
		} else if !present[peer] {
			present[peer] = true
			peers = append(peers, peer)
		}
	}
	rand.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
	return peers, err
}

// join exchanges everything with one peer.
func (r *Ring) join(peer string) error {
	_, err := r.list.Join([]string{peer})
	if err == nil {
		r.rejoins.Add(1)
		return nil
	}
	r.failures.Add(1)
	err = r.explain(peer, err)
	if refusedBy(err) != nil && !errors.Is(err, ErrSettings) { // those were noted where they were found
		r.refused.note(err)
	}
	return err
}

// explain finds out from memberlist's words why a peer can't be joined. A peer
// with another label closes the connection without a word; one with another key
// answers what this node can't read.
func (r *Ring) explain(peer string, err error) error {
	text := strings.TrimSpace(err.Error())
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	switch {
	case has(ErrSettings.Error()):
		_, detail, _ := strings.Cut(text, ErrSettings.Error())
		return fmt.Errorf("join %s: %w%s", peer, ErrSettings, detail)
	case has("no installed keys could decrypt"):
		return fmt.Errorf("join %s: %w: neither can read the other's gossip; all nodes of %q need one secret in common (--cluster-secret)",
			peer, ErrSecret, r.cfg.Cluster)
	case has("EOF", "reset by peer", "broken pipe"):
		return fmt.Errorf("join %s: %w: it closed the connection without an answer, so it is a node of another cluster than %q, or no gossip port at all (--cluster-name, --join)",
			peer, ErrCluster, r.cfg.Cluster)
	}
	if _, detail, ok := strings.Cut(text, "* "); ok {
		text = strings.TrimSpace(detail)
	}
	return errors.New(text)
}

// refusedBy answers which refusal err is, if any.
func refusedBy(err error) error {
	for _, kind := range []error{ErrSecret, ErrSettings, ErrCluster, ErrNameTaken} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// pause lets a duration pass, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
