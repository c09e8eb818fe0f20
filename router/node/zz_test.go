package node_test

import (
	"context"
	"strings"
	"testing"
	"time"
	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestZZ(t *testing.T) {
	text := strings.Repeat("Row 0123 äöü 漢字 😀. ", 413_793)
	for _, pg := range []bool{false,true} {
	for _, page := range []int64{64<<10, 256<<10, 1<<20} {
	cfg := node.Config{Limits: router.Limits{PageUnits: page}}
	if pg { cfg.Database = pgtest.URL(t) }
	n := openNode(t, cfg)
	n.open("m1")
	n.pumpText("m1", text)
	n.seal("m1")
	n = n.restart()
	for _, k := range []int{1, 50} {
	b := time.Now()
	var g errgroup.Group
	for range k { g.Go(func() error {
		r, err := n.join(context.Background(), "m1", "")
		if err != nil { return err}
		_, err = r.hashed()
		return err
	})}
	if err := g.Wait(); err != nil {t.Error(err)}
	t.Log(pg, page, k, time.Since(b))
	}
	}
	}
}
