package ring

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// claim makes sure that this process is the only one of its node's name. It asks
// those that the cluster has, or had until just now, and replaces the ones that
// don't answer; the others are told together with this node's next state, before
// which it means nothing. Of two that join at the same time, the one whose name
// sorts first goes on.
func (r *Ring) claim(ctx context.Context) error {
	namesakes, cloned := r.roster.others()
	if cloned != "" {
		return fmt.Errorf("%w: another process is %s/%s, at %s; incarnations must be unique",
			ErrNameTaken, r.cfg.Node, r.cfg.Incarnation, cloned)
	}
	alive := r.ask(ctx, namesakes)
	var replaced []string
	for _, incarnation := range slices.Sorted(maps.Keys(namesakes)) {
		name := r.cfg.Node + "/" + incarnation
		switch {
		case !alive[incarnation]:
			replaced = append(replaced, incarnation)
		case r.roster.state(name) == Joining && r.cfg.Incarnation < incarnation:
		default:
			return fmt.Errorf("%w: %s lives at %s; end it, or give this node another name",
				ErrNameTaken, name, namesakes[incarnation])
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.replace(replaced)
	return nil
}

// ask finds out which of the processes live, all at once. One that had this
// process's address doesn't.
func (r *Ring) ask(ctx context.Context, namesakes map[string]string) map[string]bool {
	var mu sync.Mutex
	var wait sync.WaitGroup
	alive := make(map[string]bool)
	for incarnation, addr := range namesakes {
		if addr == r.Addr() {
			continue
		}
		wait.Go(func() {
			answered := r.answers(ctx, r.cfg.Node+"/"+incarnation, addr)
			mu.Lock()
			defer mu.Unlock()
			alive[incarnation] = answered
		})
	}
	wait.Wait()
	return alive
}

// answers asks a process twice whether it lives. Another process at its address
// doesn't answer to its name.
func (r *Ring) answers(ctx context.Context, name, addr string) bool {
	for range 2 {
		if _, err := r.list.Ping(name, udp(addr)); err == nil || ctx.Err() != nil {
			return err == nil
		}
	}
	return false
}
