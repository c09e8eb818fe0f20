package node

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/ring"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/generate"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
)

// Defaults of Config.
const (
	DefaultListen  = "127.0.0.1:8080"
	DefaultData    = "data"
	DefaultDrain   = 25 * time.Second
	DefaultMaxText = int64(1 << 30)
)

// MinMaxText is the least MaxText: what one stream keeps in any case, 16 Ki units
// of up to three bytes, and room to grow. With less the text of a single idle
// stream would leave no other room to open.
const MinMaxText = int64(64 << 10)

// Config is all that a node needs to know. Its zero value is a node on
// loopback with an embedded store in ./data.
type Config struct {
	Listen   string // host:port; "" means DefaultListen; port 0 takes a free one
	Data     string // folder of the embedded store; "" means DefaultData
	Database string // postgres://… ; "" is the embedded store in Data

	// DirectDatabase is a URL of the same database past a pooler, for what needs a
	// session of its own; "" means Database. See postgres.Config.DirectURL.
	DirectDatabase string

	// Tables are the application's own in Database, where streams are kept in
	// those: its messages, which it makes, and their chunks. The zero Tables means
	// Rillkeep's own tables, which it makes itself.
	Tables mapped.Tables

	// Name tells the nodes of one database apart, and a node's own rows from
	// others': it stays the same over restarts. "" means host name and address, and
	// for the embedded store a name that one node of a folder can have. Tables
	// without a host column have no place for it.
	Name string

	// Retention is how long ended streams stay in the database; 0 keeps them. Tables
	// of an application's refuse it, and those without a host column the next two as
	// well.
	Retention time.Duration
	LeaseTTL  time.Duration // of the node's lease on the database; 0 means lease.DefaultTTL
	Grace     time.Duration // from the end of a node's lease until others seal its streams; 0 means lease.DefaultGrace

	Keys     *auth.Keys // verify tokens; nil allows everything, on loopback only
	Audience string     // that tokens are made for; "" means auth.DefaultAudience

	// MaxText bounds the text in memory, of all streams together, in bytes; 0
	// means DefaultMaxText, and less than MinMaxText is refused. The process takes
	// up to twice as much for it.
	MaxText int64

	// MaxConnections is how many connections of clients there may be at once; 0 means
	// as many as the process may have file descriptors, without 96 and one in sixteen
	// of them, which are for the store and the other nodes. Those beyond it are answered
	// 503, or closed.
	MaxConnections int

	// Cluster makes this one of the nodes that share its store and serve each other's
	// streams; nil for a node that serves its own alone.
	Cluster *Cluster

	// Generate are the models that can be called, and the bounds of their calls.
	Generate generate.Config

	// For tests and simulations: Listener in place of a socket at Listen, and Store in
	// place of Database and Data. What several nodes share is a Store for each that is a
	// store.Named and a store.Shared as well; in another one nobody ends what an earlier
	// node left streaming. Both are closed with the node. Who can reach the Listener is
	// for who gives it to decide.
	Listener net.Listener
	Store    store.Store

	Policy plane.Policy
	Linger time.Duration // of ended streams in memory; 0 means actor.DefaultLinger

	// ProducerTimeout is how long a stream may have no producer that is connected, and
	// hear of none, before it is sealed interrupted: 0 means
	// actor.DefaultProducerTimeout, less that it may for ever.
	ProducerTimeout time.Duration

	Limits router.Limits
	Logger *slog.Logger // nil discards
}

// check refuses what can be known to be wrong before anything is asked of the
// network, the disk or a database, which may take for ever to answer.
func (cfg Config) check() error {
	if err := auth.CheckListen(cfg.Listen, cfg.Keys != nil); err != nil && cfg.Listener == nil {
		return fmt.Errorf("%w: Listen: %w", plane.ErrConfig, err)
	}
	for _, check := range []func() string{cfg.checkPlaces, cfg.checkTables, cfg.checkValues, cfg.checkCluster} {
		if fault := check(); fault != "" {
			return fmt.Errorf("%w: %s", plane.ErrConfig, fault)
		}
	}
	if cfg.Tables != (mapped.Tables{}) {
		if err := cfg.Tables.Validate(); err != nil {
			return err
		}
	}
	if err := cfg.Generate.Validate(); err != nil {
		return err
	}
	if err := cfg.Policy.Validate(); err != nil {
		return err
	}
	return cfg.Limits.Validate(cfg.Keys != nil)
}

// checkPlaces answers what is wrong with where the node and its store are.
func (cfg Config) checkPlaces() string {
	if cfg.Listener != nil && cfg.Listen != "" {
		return "Listen beside a Listener has no effect"
	}
	if cfg.Store != nil && (cfg.Database != "" || cfg.Data != "" || cfg.Tables != (mapped.Tables{})) {
		return "Database, Data and Tables beside a Store have no effect"
	}
	if cfg.Listener != nil {
		cfg.Listen = DefaultListen
	}
	_, port, err := net.SplitHostPort(cfg.Listen)
	number, named := strconv.Atoi(port)
	switch {
	case err != nil:
		return fmt.Sprintf("Listen: %v", err)
	case named == nil && (number < 0 || number > math.MaxUint16):
		return fmt.Sprintf("Listen: %q has no port from 0 to %d", cfg.Listen, math.MaxUint16)
	case cfg.Database == "" && cfg.DirectDatabase != "":
		return "DirectDatabase without a database has no effect"
	case cfg.Database != "" && !isPostgres(cfg.Database):
		return "Database is a postgres:// URL, or empty for the embedded store"
	case cfg.DirectDatabase != "" && !isPostgres(cfg.DirectDatabase):
		return "DirectDatabase is a postgres:// URL"
	case cfg.Database != "" && cfg.Data != "":
		return "Data beside a Database has no effect: it is the folder of the embedded store"
	default:
		return ""
	}
}

// checkTables answers what an application's tables can't honour.
func (cfg Config) checkTables() string {
	switch {
	case cfg.Tables == (mapped.Tables{}):
		return ""
	case cfg.Database == "":
		return "Tables of the application need its database, a postgres:// URL"
	case cfg.Retention != 0:
		return "an application's tables have no retention, and Retention no effect: messages are its own to delete"
	case cfg.Tables.Host == "" && (cfg.LeaseTTL != 0 || cfg.Grace != 0):
		return "leases need a column for host: without one LeaseTTL and Grace have no effect"
	case cfg.Tables.Host == "" && cfg.Name != "":
		return "a node's name needs a column for host: without one Name has no effect"
	default:
		return ""
	}
}

// checkCluster answers what is wrong with the cluster's settings.
func (cfg Config) checkCluster() string {
	c := cfg.Cluster
	switch {
	case c == nil:
		return ""
	case len(c.Secrets) == 0:
		return "a Cluster needs Secrets, the same on all nodes"
	case slices.ContainsFunc(c.Secrets, func(s string) bool { return len(s) < ring.MinSecret }):
		return fmt.Sprintf("each of the Cluster's Secrets (--cluster-secret) has %d bytes or more", ring.MinSecret)
	case cfg.Tables != (mapped.Tables{}) && cfg.Tables.Host == "":
		return "a Cluster needs a column for host: without one no row says whose it is"
	case len(c.Join) > 0 && c.JoinDNS != "":
		return "Join and JoinDNS exclude each other"
	case c.FlyReplay && !router.IsMachine(cfg.Name):
		return fmt.Sprintf("with FlyReplay (--forwarding fly-replay) a node's Name (--name) is its machine's id, $FLY_MACHINE_ID: %q", cfg.Name)
	case len(cfg.Name) > 128 || strings.ContainsFunc(cfg.Name, unicode.IsSpace):
		return fmt.Sprintf("in a Cluster a node's Name has at most 128 bytes, and no spaces: %q", cfg.Name)
	default:
		return ""
	}
}

// checkValues answers which setting has a value that it can't have.
func (cfg Config) checkValues() string {
	for _, times := range []struct {
		name string
		of   time.Duration
	}{{"Retention", cfg.Retention}, {"LeaseTTL", cfg.LeaseTTL}, {"Grace", cfg.Grace}, {"Linger", cfg.Linger}} {
		if times.of < 0 {
			return fmt.Sprintf("%s is %v, and must be 0 or more", times.name, times.of)
		}
	}
	switch {
	case strings.ContainsRune(cfg.Name, '/'):
		return fmt.Sprintf("a node's Name has no slash: %q", cfg.Name)
	case !utf8.ValidString(cfg.Name) || strings.ContainsFunc(cfg.Name, unicode.IsControl):
		return fmt.Sprintf("a node's Name is UTF-8 without control characters: %q", cfg.Name)
	case cfg.MaxText != 0 && cfg.MaxText < MinMaxText:
		return fmt.Sprintf("MaxText is %d bytes, and must be at least %d KiB", cfg.MaxText, MinMaxText>>10)
	case cfg.MaxConnections < 0:
		return fmt.Sprintf("MaxConnections is %d, and must be 0 or more", cfg.MaxConnections)
	case cfg.Audience != "" && cfg.Keys == nil:
		return "Audience without Keys has no effect: nobody looks at tokens"
	default:
		return ""
	}
}

func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// name is the node's part of its owner tokens.
func (cfg Config) name(addr net.Addr) string {
	switch {
	case cfg.Name != "":
		return cfg.Name
	case cfg.Database == "" && cfg.Store == nil:
		return embedded
	}
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return strings.ReplaceAll(host, "/", "-") + "-" + addr.String()
}
