package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
)

// seals measures a seal that sends the whole text beside one that leaves what
// the chunks hold to the server, for texts of three lengths.
func (c comparison) seals(ctx context.Context, server *server.Server) error {
	s, err := postgres.Open(ctx, server.URL(), postgres.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	postmaster, err := postmasterOf(ctx, server.URL())
	if err != nil {
		return err
	}
	for _, kilobytes := range []int{2, 20, 200} {
		for round := range c.rounds {
			for _, way := range []string{"whole", "folded"} {
				prefix := fmt.Sprintf("%s-%d-%d-", way, kilobytes, round)
				if err := sealMany(ctx, s, postmaster, prefix, kilobytes, way == "folded"); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// sealMany seals streams one after the other and prints what that cost.
func sealMany(ctx context.Context, s *postgres.Store, postmaster int, prefix string, kilobytes int, fold bool) error {
	seals := make([]plane.Seal, 100)
	writing, writes := errgroup.WithContext(ctx)
	for n := range seals {
		writing.Go(func() (err error) {
			seals[n], err = written(writes, s, fmt.Sprint(prefix, n), kilobytes)
			if !fold {
				seals[n].From = 0
			}
			return err
		})
	}
	if err := writing.Wait(); err != nil {
		return err
	}
	ownBefore, before, err := cpu(postmaster)
	if err != nil {
		return err
	}
	delays := make([]time.Duration, len(seals))
	for n, seal := range seals {
		began := time.Now()
		row, err := s.Seal(ctx, seal)
		if err != nil || row.Status != plane.StatusComplete {
			return fmt.Errorf("seal: %+v, %w", row, err)
		}
		delays[n] = time.Since(began)
	}
	ownAfter, after, err := cpu(postmaster)
	if err != nil {
		return err
	}
	slices.Sort(delays)
	count := time.Duration(len(seals))
	fmt.Printf("%-17s p50=%v p99=%v cpu of the server=%v of the client=%v\n", prefix,
		delays[count/2].Round(10*time.Microsecond), delays[count*99/100].Round(10*time.Microsecond),
		(after-before)/count, (ownAfter-ownBefore)/count)
	return nil
}

// written is a stream that the store has, but for a short tail.
func written(ctx context.Context, s *postgres.Store, id string, kilobytes int) (plane.Seal, error) {
	row, err := s.Open(ctx, plane.Claim{ID: id, Node: "n1/boot1"})
	if err != nil {
		return plane.Seal{}, err
	}
	whole := strings.Repeat(text, 2*kilobytes)
	for row.Seq+2*512 <= int64(len(whole)) {
		next := row.Seq + 512
		row, err = s.Append(ctx, plane.Slice{ID: id, Token: row.Token, From: row.Seq, Seq: next, Text: whole[row.Seq:next]})
		if err != nil {
			return plane.Seal{}, err
		}
	}
	return plane.Seal{
		ID: id, Token: row.Token, Status: plane.StatusComplete, From: row.Seq, Seq: int64(len(whole)), Text: whole,
	}, nil
}
