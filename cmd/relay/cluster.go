package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"rillkeep.dev/rillkeep/cmd/internal/measure"
	"rillkeep.dev/rillkeep/ring"
	"rillkeep.dev/rillkeep/router/wire"
)

// startTime bounds how long the nodes may take to find each other.
const startTime = 30 * time.Second

// cluster is two nodes that share a store, and the proxy.
type cluster struct {
	owner, other, proxy *measure.Child

	folder string
	table  *ring.Table
	self   string // the owner's name as a member
	tried  int    // ids for streams
}

func startCluster(ctx context.Context) (c *cluster, err error) {
	c = new(cluster)
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if c.folder, err = os.MkdirTemp("", "relay"); err != nil {
		return c, fmt.Errorf("make folder: %w", err)
	}
	secret := rand.Text()
	if c.owner, err = measure.Start(ctx, "node", "owner", c.folder, secret); err != nil {
		return c, err
	}
	if c.other, err = measure.Start(ctx, "node", "other", c.folder, secret); err != nil {
		return c, err
	}
	if c.proxy, err = measure.Start(ctx, "proxy", c.owner.URL); err != nil {
		return c, err
	}
	return c, c.meet(ctx)
}

func (c *cluster) stop() error {
	var errs []error
	for _, child := range []*measure.Child{c.proxy, c.other, c.owner} {
		if child != nil {
			errs = append(errs, child.Stop())
		}
	}
	if c.folder != "" {
		errs = append(errs, os.RemoveAll(c.folder))
	}
	return errors.Join(errs...)
}

// meet waits until both nodes know of both.
func (c *cluster) meet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ours, err := describe(ctx, c.owner)
		if err != nil {
			return err
		}
		theirs, err := describe(ctx, c.other)
		if err != nil {
			return err
		}
		if names := active(ours); len(names) == 2 && ours.Ring == theirs.Ring {
			c.self = ours.Self
			c.table, err = ring.NewTable(names, ring.Settings{})
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the nodes to meet: %w", ctx.Err())
		}
	}
}

func describe(ctx context.Context, node *measure.Child) (d wire.Cluster, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, node.URL+"/v1/cluster", nil)
	if err != nil {
		return d, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return d, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil {
		return d, fmt.Errorf("read what the cluster is: %s: %w", resp.Status, err)
	}
	return d, nil
}

func active(d wire.Cluster) (names []string) {
	for _, m := range d.Members {
		if m.State == ring.Active.String() {
			names = append(names, m.Name)
		}
	}
	return names
}

// stream returns the id of a new stream that the owner will own.
func (c *cluster) stream() string {
	for {
		c.tried++
		id := fmt.Sprint("load-", c.tried)
		if owner, _ := c.table.Owner(id); owner == c.self {
			return id
		}
	}
}
