package peer

import (
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	defaultMaxConns     = 1024
	defaultWriteTimeout = 10 * time.Second
)

// ServerConfig is what a [Server] is made of.
type ServerConfig struct {
	Identity
	Handler http.Handler // required; sees only requests of members

	// WriteTimeout is how long one write or flush of a handler may wait for the
	// peer to read. Then its stream is reset, and the write fails. 0 means 10s.
	WriteTimeout time.Duration
	MaxConns     int // 0 means 1024

	// Refused, if set, is called for every request that is not let through, with
	// one of a handful of reasons. It must not block.
	Refused func(reason string)
	Logger  *slog.Logger // nil discards

	// Clock is the time in milliseconds; for tests. nil means the wall clock's at
	// the start and a monotonic one from then on.
	Clock func() int64
}

// Server lets other members' requests through to a handler, and nothing else.
// It is safe for concurrent use.
type Server struct {
	http *http.Server
	gate *gate
	max  int

	mu    sync.Mutex // guards below
	doors map[*door]struct{}
	done  bool
	tasks sync.WaitGroup // Serve calls
}

// NewServer checks cfg, loads its certificates and returns a server that
// [Server.Serve] starts.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Handler == nil {
		return nil, fmt.Errorf("%w: no handler", errConfig)
	}
	g, err := newGate(cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{gate: g, max: cfg.MaxConns, doors: make(map[*door]struct{})}
	if s.max <= 0 {
		s.max = defaultMaxConns
	}
	s.http = &http.Server{
		Handler:                      g,
		Protocols:                    protocols(cfg.TLS != nil),
		HTTP2:                        http2Config(),
		ReadHeaderTimeout:            proveWithin,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true, // it would answer before the gate
		ErrorLog:                     errorLog(cfg.Logger),
		ConnContext:                  withGuest,
	}
	if cfg.TLS != nil {
		if s.http.TLSConfig, err = cfg.TLS.config(); err != nil {
			return nil, err
		}
		s.http.TLSConfig.VerifyConnection = nil // ClientAuth has looked at the certificate
	}
	return s, nil
}

// errorLog takes what the standard library says of connections that end badly:
// peers come and go, nothing to wake somebody for.
func errorLog(l *slog.Logger) *log.Logger {
	if l == nil {
		return log.New(io.Discard, "", 0)
	}
	return slog.NewLogLogger(l.Handler(), slog.LevelDebug)
}

// Serve answers connections of l until the server is closed, and then answers
// nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	d := newDoor(l, s.max)
	s.mu.Lock()
	if s.done {
		s.mu.Unlock()
		return d.Close()
	}
	s.doors[d] = struct{}{}
	s.tasks.Add(1)
	s.mu.Unlock()
	defer s.tasks.Done()
	var err error
	if s.http.TLSConfig != nil {
		err = s.http.ServeTLS(d, "", "")
	} else {
		err = s.http.Serve(d)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close ends all connections and waits for handlers and Serve to return: a
// handler must not outlast its request's context. It may be called twice.
func (s *Server) Close() error {
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.gate.close()
	err := s.http.Close()
	s.mu.Lock()
	doors := s.doors
	s.doors = nil
	s.mu.Unlock()
	for d := range doors {
		d.shut()
	}
	s.tasks.Wait()
	s.gate.handlers.Wait()
	return err
}
