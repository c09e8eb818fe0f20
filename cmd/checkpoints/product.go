package main

import (
	"context"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
	"time"
)

type product struct {
	streams, rate int
	length        time.Duration
}

func (p product) run(ctx context.Context, server *pgtest.Server) error { return nil }

func (c comparison) seals(ctx context.Context, server *pgtest.Server) error { return nil }
