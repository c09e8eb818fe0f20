package faulttest_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
)

// scene is what a fault happens to.
type scene struct {
	*fleet
	url    string // past the proxy
	proxy  *pgtest.Proxy
	server *server.Server // nil if it is shared with other tests
}

// exec runs a statement in a session that has been there all along.
func (s scene) exec(sql string) {
	s.t.Helper()
	if _, err := s.db.Exec(context.Background(), sql); err != nil {
		s.t.Error(err)
	}
}

// lasts is how long a fault does that has no length of its own: longer than a
// call may take.
func lasts() { <-time.After(1500 * time.Millisecond) }

type fault struct {
	streams int
	url     string   // settings in the store's URL
	server  []string // settings of a server of its own; nil takes the shared one
	pooled  bool     // by way of a pooler
	patient bool     // no call is given up: it is the answers that count
	strike  func(scene)
}

var faults = map[string]fault{
	"requests that do not arrive": {strike: func(s scene) {
		defer s.proxy.On(pgtest.Every(5, pgtest.Writes), pgtest.CutBefore)()
		lasts()
	}},
	"commits whose answer is lost": {strike: func(s scene) {
		defer s.proxy.On(pgtest.Every(5, pgtest.Writes), pgtest.CutAfter)()
		lasts()
	}},
	"requests of which none is answered": {streams: 16, strike: func(s scene) {
		defer s.proxy.On(pgtest.Words(), pgtest.CutAfter)()
		lasts()
	}},
	"a slow network": {strike: func(s scene) {
		defer s.proxy.Delay(0)
		s.proxy.Delay(80 * time.Millisecond)
		lasts()
	}},
	"a network that stands still": {strike: func(s scene) {
		s.proxy.Freeze()
		lasts()
		lasts()
		s.proxy.Thaw()
	}},
	"answers that come too late": {strike: func(s scene) {
		off := s.proxy.On(pgtest.Every(7, pgtest.Writes), pgtest.Stall)
		lasts()
		off()
		s.proxy.Thaw()
	}},
	"connections that lead nowhere": {strike: func(s scene) {
		s.proxy.Lose()
		lasts()
		s.proxy.Lose()
		lasts()
		s.proxy.Cut()
	}},
	"no connections": {strike: func(s scene) {
		s.proxy.Refuse(true)
		s.proxy.Cut()
		lasts()
		s.proxy.Refuse(false)
	}},
	"sessions that are terminated": {streams: 200, strike: func(s scene) {
		for range 8 {
			pgtest.Terminate(s.t, s.url)
			<-time.After(150 * time.Millisecond)
		}
	}},
	"a pooler's sessions that are terminated": {pooled: true, strike: func(s scene) {
		for range 8 {
			pgtest.Terminate(s.t, s.url)
			<-time.After(150 * time.Millisecond)
		}
	}},
	"a restart": {streams: 200, server: []string{"fsync=off"}, strike: func(s scene) {
		if err := errors.Join(s.server.Down(server.Fast), s.server.Up()); err != nil {
			s.t.Error(err)
		}
	}},
	"a crash": {streams: 200, server: []string{"fsync=off"}, strike: func(s scene) {
		if err := s.server.Down(server.Immediate); err != nil {
			s.t.Error(err)
		}
		lasts()
		if err := s.server.Up(); err != nil {
			s.t.Error(err)
		}
	}},
	"rows that an application has locked": {strike: func(s scene) {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, s.url)
		if err != nil {
			s.t.Error(err)
			return
		}
		defer conn.Close(ctx)
		const these = "id LIKE '%7'"
		if _, err := conn.Exec(ctx, "BEGIN; SELECT FROM rillkeep.streams WHERE "+these+" FOR UPDATE"); err != nil {
			s.t.Error(err)
		}
		s.othersGoOn('7')
		lasts()
	}},
	"a pool without a free connection": {url: "&pool_max_conns=2", strike: func(s scene) {
		off := s.proxy.On(pgtest.Every(2, pgtest.Writes), pgtest.Stall)
		lasts()
		lasts()
		off()
		s.proxy.Thaw()
	}},
	"a server without a free connection": {server: []string{"fsync=off", "max_connections=20"}, strike: func(s scene) {
		ctx := context.Background()
		var taken []*pgx.Conn
		for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); {
			conn, err := pgx.Connect(ctx, s.url)
			if err == nil {
				taken = append(taken, conn)
				continue
			}
			if _, err := taken[0].Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name = 'rillkeep'`); err != nil {
				s.t.Error(err)
			}
		}
		if len(taken) < 15 {
			s.t.Errorf("%d connections were taken", len(taken))
		}
		for _, conn := range taken {
			_ = conn.Close(ctx)
		}
	}},
	"a server that takes no writes": {strike: func(s scene) {
		name := s.db.Config().ConnConfig.Database
		s.exec("ALTER DATABASE " + name + " SET default_transaction_read_only = on")
		pgtest.Terminate(s.t, s.url)
		lasts()
		s.exec("ALTER DATABASE " + name + " RESET default_transaction_read_only")
	}},
	"ends whose answer is lost": {strike: func(s scene) {
		s.underway(1)
		defer s.proxy.On(pgtest.Every(2, pgtest.Writes), pgtest.CutAfter)()
		s.stop()
		lasts()
	}},
	"ends without a connection": {strike: func(s scene) {
		s.underway(1)
		s.proxy.Refuse(true)
		s.proxy.Cut()
		s.stop()
		lasts()
		s.proxy.Refuse(false)
	}},
	"ends in a crash": {server: []string{"fsync=off"}, strike: func(s scene) {
		s.underway(1)
		s.stop()
		<-time.After(beat + beat/2)
		if err := errors.Join(s.server.Down(server.Immediate), s.server.Up()); err != nil {
			s.t.Error(err)
		}
	}},
	"a constraint that some break": {patient: true, strike: func(s scene) {
		s.exec("ALTER TABLE rillkeep.chunks ADD CONSTRAINT good CHECK (stream_id NOT LIKE '%7') NOT VALID")
		s.othersGoOn('7')
		lasts()
		s.exec("ALTER TABLE rillkeep.chunks DROP CONSTRAINT good")
		s.brokenOnce('7')
	}},
}

// underway returns when one in n streams is, while others are being opened.
func (s scene) underway(n int) {
	s.t.Helper()
	s.await("streams are open", func(context.Context) bool {
		open := 0
		for _, of := range s.streams {
			if _, ok := s.system.Stream(of.id); ok {
				open++
			}
		}
		return open*n >= len(s.streams)
	})
}

// othersGoOn returns when all streams but those whose id ends so have more text
// than now (I).
func (s scene) othersGoOn(but byte) {
	s.t.Helper()
	before := s.lengths()
	s.await("the other streams go on (I)", func(context.Context) bool {
		for id, now := range s.lengths() {
			if was, ok := before[id]; ok && id[len(id)-1] != but && now <= was {
				return false
			}
		}
		return true
	})
}

// brokenOnce fails the test unless what the server refused for good was tried
// once a round, and of other streams nothing was.
func (s scene) brokenOnce(these byte) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	rounds := 0
	for _, c := range s.rounds {
		if !errors.Is(c.Err, plane.ErrBroken) {
			continue
		}
		rounds++
		if c.Attempts != 1 || c.StreamID[len(c.StreamID)-1] != these {
			s.t.Errorf("%s was tried %d times: %v", c.StreamID, c.Attempts, c.Err)
		}
	}
	if rounds == 0 {
		s.t.Error("nothing was refused")
	}
}

func TestStreamsOutliveWhatHappensToTheirDatabase(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault.happens(t, managed)
		})
	}
}

// happens lets a fault happen to streams that are kept so.
func (f fault) happens(t *testing.T, keeping keeping) {
	s := scene{}
	if f.server == nil {
		s.url = pgtest.URL(t)
	} else {
		var err error
		if s.server, err = server.Start(t.Context(), f.server...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.server.Stop() })
		s.url = s.server.URL()
	}
	s.proxy = pgtest.NewProxy(t, s.url)
	way := s.proxy.URL()
	if f.pooled {
		way = pgtest.Bouncer(t, way)
	}
	policy := policy()
	if f.patient {
		policy.StoreTimeout = patience
	}
	s.fleet = launch(t, policy, keeping, cmp.Or(f.streams, 64), way+f.url, s.url)
	s.underway(2)
	f.strike(s)
	lasts() // as in between
	s.land()
}
