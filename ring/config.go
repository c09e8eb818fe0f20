package ring

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// DefaultPort is the port of gossip, TCP and UDP.
const DefaultPort = 7946

// MinSecret is how many bytes a cluster secret has at least.
const MinSecret = 16

// Transport carries gossip in place of sockets.
type Transport = memberlist.Transport

// Config says who a node is and how it finds the others. The fields that are
// required say so; the rest has defaults.
type Config struct {
	Node        string // required; of printable characters without spaces and slashes, at most 128 bytes
	Incarnation string // required, unique to the process; letters, digits, '-', '_' and '.', at most 32 bytes
	Version     string // of the program

	Cluster string   // the cluster's name, 1 to 128 bytes; "" means "rillkeep". Clusters of other names are kept apart
	Secrets []string // required, each of MinSecret bytes at least; the first is used, all are accepted

	Bind      string // host:port that gossip is received on; "" means ":7946". Port 0 picks a free one
	Advertise string // host or host:port that others reach this node's gossip at; "" means Bind's, or this machine's primary address
	PeerAddr  string // host:port that others reach this node's listener for nodes at; an empty host stands for the advertised one
	HTTPAddr  string // host:port that the public is served at, likewise

	Seeds    Seeds    // whom to join; nil means nobody
	Settings Settings // of the table; the same on all nodes

	// Failure detection. A member is suspected when it answers neither a probe nor
	// the probes of three others, and dropped SuspicionMult × log10(members), at
	// least one, × ProbeInterval later at the soonest.
	ProbeInterval time.Duration // between two probes of a node; 0 means 600 ms: a crash is known by all of 7 after 3.5 s at the median, 5.7 s at most of 400 trials
	ProbeTimeout  time.Duration // for the answer to one; 0 means half of ProbeInterval
	SuspicionMult int           // 0 means 4

	GossipInterval   time.Duration // between two rounds of gossip; 0 means 200 ms
	PushPullInterval time.Duration // between two exchanges of everything with one member; 0 means 10 s
	StreamTimeout    time.Duration // for a stream to connect, and to exchange all; 0 means 2 s

	RejoinInterval time.Duration // between two attempts to join who is missing, ±30 %; 0 means 10 s
	RejoinMemory   time.Duration // for how long a member that is gone is missed; 0 means 1 h
	SettleDelay    time.Duration // for how long changes are gathered into one view, unless a member is gone; 0 means 150 ms
	LeaveLinger    time.Duration // for how long a node that left still answers probes; 0 means 1 s

	Transport Transport    // carries gossip instead of sockets at Bind; closed with the ring, and when Open fails
	Log       *slog.Logger // nil means slog.Default()
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.ProbeInterval, 600*time.Millisecond)
	set(&c.ProbeTimeout, c.ProbeInterval/2)
	set(&c.GossipInterval, 200*time.Millisecond)
	set(&c.PushPullInterval, 10*time.Second)
	set(&c.StreamTimeout, 2*time.Second)
	set(&c.RejoinInterval, 10*time.Second)
	set(&c.RejoinMemory, time.Hour)
	set(&c.SettleDelay, 150*time.Millisecond)
	set(&c.LeaveLinger, time.Second)
	if c.SuspicionMult == 0 {
		c.SuspicionMult = 4
	}
	if c.Cluster == "" {
		c.Cluster = "rillkeep"
	}
	if c.Bind == "" {
		c.Bind = fmt.Sprintf(":%d", DefaultPort)
	}
	if c.Seeds == nil {
		c.Seeds = Static{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Settings = c.Settings.withDefaults()
	return c
}

func (c Config) validate() error {
	if err := checkPart("Node", c.Node, maxNode); err != nil {
		return err
	}
	if err := checkIncarnation(c.Incarnation); err != nil {
		return err
	}
	if len(c.Cluster) > 128 {
		return fmt.Errorf("setting Cluster is %d bytes, at most 128", len(c.Cluster))
	}
	if err := checkSecrets(c.Secrets); err != nil {
		return err
	}
	if err := c.checkTimes(); err != nil {
		return err
	}
	return c.Settings.validate()
}

func (c Config) checkTimes() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"ProbeInterval", c.ProbeInterval}, {"ProbeTimeout", c.ProbeTimeout},
		{"GossipInterval", c.GossipInterval}, {"PushPullInterval", c.PushPullInterval},
		{"StreamTimeout", c.StreamTimeout}, {"RejoinInterval", c.RejoinInterval},
		{"RejoinMemory", c.RejoinMemory}, {"SettleDelay", c.SettleDelay}, {"LeaveLinger", c.LeaveLinger},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s is negative", d.name)
		}
	}
	if c.ProbeTimeout >= c.ProbeInterval {
		return fmt.Errorf("setting ProbeTimeout %v must be shorter than ProbeInterval %v", c.ProbeTimeout, c.ProbeInterval)
	}
	if c.SuspicionMult < 1 {
		return errors.New("setting SuspicionMult must be at least 1")
	}
	return nil
}

// metadata is what the node says of itself, reachable at ip.
func (c Config) metadata(ip netip.Addr) (metadata, error) {
	m := metadata{Format: metaVersion, State: Joining, Settings: c.Settings.String(), Version: c.Version}
	for _, a := range []struct {
		name, addr string
		to         *string
	}{{"PeerAddr", c.PeerAddr, &m.Peer}, {"HTTPAddr", c.HTTPAddr, &m.HTTP}} {
		if a.addr == "" {
			continue
		}
		host, port, err := net.SplitHostPort(a.addr)
		if err != nil {
			return m, fmt.Errorf("%s %q is not host:port: %w", a.name, a.addr, err)
		}
		if known, err := netip.ParseAddr(host); err == nil && known.Unmap().IsUnspecified() {
			return m, fmt.Errorf("%s %q is no address that others can reach", a.name, a.addr)
		}
		if host == "" {
			host = ip.String()
		}
		*a.to = net.JoinHostPort(host, port)
	}
	return m, m.checkSize()
}

// gossip is memberlist's configuration: that for a LAN, with the changes that its
// behaviour in tests of many partitions and crashes asks for.
func (c Config) gossip(transport memberlist.Transport, keys *memberlist.Keyring, d *delegate) *memberlist.Config {
	m := memberlist.DefaultLANConfig()
	m.Name = c.Node + "/" + c.Incarnation
	m.Label = c.Cluster
	m.Keyring = keys
	m.Transport = transport
	m.ProbeInterval, m.ProbeTimeout, m.SuspicionMult = c.ProbeInterval, c.ProbeTimeout, c.SuspicionMult
	m.GossipInterval, m.PushPullInterval, m.TCPTimeout = c.GossipInterval, c.PushPullInterval, c.StreamTimeout
	// With fewer nodes and repetitions one change in some thousands passes by one of
	// 7 members, which then learns of it by an exchange of everything only.
	m.GossipNodes, m.RetransmitMult = 6, 8
	m.EnableCompression = false
	m.Delegate, m.Events, m.Alive, m.Merge, m.Conflict = d, d, d, d, d
	m.Logger = newLogger(d)
	return m
}
