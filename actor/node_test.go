package actor_test

import (
	"context"
	"encoding/json"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// node is one node of the script.
type node struct {
	cfg    planeConfig
	system *actor.System
}

// start makes a node of the script.
func (s *script) start(name string) {
	n := s.nodes[name]
	p := n.cfg
	policy := plane.DefaultPolicy()
	policy.CancelGrace = 0 // the recorded implementation waits for its producer for ever
	set := func(to *int64, from *int64) {
		if from != nil {
			*to = *from
		}
	}
	millis := func(to *time.Duration, from *int64) {
		if from != nil {
			*to = time.Duration(*from) * time.Millisecond
		}
	}
	set(&policy.Units, p.Chars)
	millis(&policy.Interval, p.IntervalMs)
	if p.Retries != nil {
		policy.Retries = int(*p.Retries)
	}
	// The recorded code repairs nothing: what a script leaves undone must stay so
	// until its end.
	cfg := actor.Config{Node: name, Authorize: s.authorizer(p), Repair: 1000 * time.Hour}
	if p.HostID != "" {
		cfg.Node = p.HostID
	}
	millis(&cfg.Linger, p.LingerMs)
	if p.Relay != (relayConfig{}) {
		cfg.Relay, cfg.AttachLinger = s.relayOf(name, p), -1
		millis(&cfg.AttachWindow, p.Relay.AttachTimeoutMs)
	}
	cfg.Plane = plane.Config{Policy: policy, Hooks: plane.Hooks{Checkpoint: func(c plane.Checkpoint) {
		s.checkpoint(c, p.HookThrows)
	}}}
	if p.Mode == "commit" {
		cfg.Plane.Commit, cfg.Plane.Retain = s.commit, p.RetainChars
	} else {
		cfg.Plane.Store = s.store.as(p)
	}
	system, err := actor.New(cfg)
	if err != nil {
		s.t.Fatalf("plane %s: %v", name, err)
	}
	n.system = system
}

func (s *script) authorizer(p planeConfig) func(context.Context, actor.Access) (bool, error) {
	return func(_ context.Context, a actor.Access) (bool, error) {
		time.Sleep(time.Duration(p.AuthorizeMs) * time.Millisecond)
		switch p.Authorize {
		case "void":
			return false, nil
		case "throw":
			return false, errAuthorizer
		}
		return a.Principal == "u1", nil
	}
}

func (s *script) checkpoint(c plane.Checkpoint, throw bool) {
	s.mu.Lock()
	if c.Err != nil {
		s.failed = append(s.failed, c)
	}
	s.mu.Unlock()
	if throw {
		panic("hook threw")
	}
}

// commit is the application of callback mode: it answers as the script says.
func (s *script) commit(ctx context.Context, change plane.Change) (plane.Answer, error) {
	if err := s.admit(ctx); err != nil {
		return plane.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, change)
	var answer struct {
		Throw           string
		Seq             *int64
		CancelRequested bool
	}
	if len(s.answers) > 0 {
		if err := json.Unmarshal(s.answers[0], &answer); err != nil {
			s.t.Errorf("answer %s: %v", s.answers[0], err)
		}
		s.answers = s.answers[1:]
	}
	if answer.Throw != "" {
		return plane.Answer{}, faults[answer.Throw]
	}
	return plane.Answer{Seq: answer.Seq, CancelRequested: answer.CancelRequested}, nil
}

// admit waits until a call of callback mode may run.
func (s *script) admit(ctx context.Context) error {
	s.mu.Lock()
	open := make(chan struct{})
	s.held = append(s.held, open)
	latency := s.store.latency
	s.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		return ctx.Err()
	}
	time.Sleep(latency)
	return nil
}
