package main

import (
	"errors"
	"strings"

	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/peer"
)

// clusterFlags make a node one of those that share its store.
type clusterFlags struct {
	Secrets      []string `help:"Secret of the cluster, 16 bytes at least, which makes the node one of it; of several the first is used and all are accepted. Better given by the environment." name:"cluster-secret" env:"RILLKEEP_CLUSTER_SECRET" placeholder:"SECRET"`
	ClusterName  string   `help:"Name of the cluster, by default rillkeep; clusters of other names are kept apart." name:"cluster-name" env:"RILLKEEP_CLUSTER_NAME" placeholder:"NAME"`
	GossipListen string   `help:"Address for gossip between nodes, TCP and UDP, by default :7946." name:"gossip-listen" env:"RILLKEEP_GOSSIP_LISTEN" placeholder:"HOST:PORT"`
	PeerListen   string   `help:"Address for requests between nodes, by default :7947." name:"peer-listen" env:"RILLKEEP_PEER_LISTEN" placeholder:"HOST:PORT"`
	Advertise    string   `help:"Host at which other nodes reach this one, by default that of the listeners, or the machine's own." env:"RILLKEEP_ADVERTISE" placeholder:"HOST"`
	Join         []string `help:"Gossip addresses of other nodes, beside those that the store knows." env:"RILLKEEP_JOIN" placeholder:"HOST:PORT"`
	JoinDNS      string   `help:"A name whose addresses, or SRV records if it begins with an underscore, are those of other nodes, beside those that the store knows." name:"join-dns" env:"RILLKEEP_JOIN_DNS" placeholder:"NAME"`
	Forwarding   *string  `help:"How a request reaches the node that has its stream: proxy (the default), or fly-replay, by Fly.io's proxy, with machines as names." enum:"proxy,fly-replay" env:"RILLKEEP_FORWARDING" placeholder:"WAY"`
	TLSCert      string   `help:"File of this node's certificate for TLS between nodes." name:"cluster-tls-cert" env:"RILLKEEP_CLUSTER_TLS_CERT" placeholder:"FILE"`
	TLSKey       string   `help:"File of its key." name:"cluster-tls-key" env:"RILLKEEP_CLUSTER_TLS_KEY" placeholder:"FILE"`
	TLSCA        string   `help:"File of the authority that signs the nodes' certificates, and no others." name:"cluster-tls-ca" env:"RILLKEEP_CLUSTER_TLS_CA" placeholder:"FILE"`
}

// cluster is what the flags say; nil if there is none.
func (f clusterFlags) cluster() (*node.Cluster, error) {
	if len(f.Secrets) == 0 {
		if f.ClusterName+f.GossipListen+f.PeerListen+f.Advertise+f.JoinDNS+f.TLSCert+f.TLSKey+f.TLSCA != "" || len(f.Join) > 0 || f.Forwarding != nil {
			return nil, errors.New("settings of a cluster without --cluster-secret have no effect")
		}
		return nil, nil
	}
	c := &node.Cluster{
		Name: f.ClusterName, GossipListen: f.GossipListen, PeerListen: f.PeerListen, Advertise: f.Advertise,
		Join: f.Join, JoinDNS: f.JoinDNS, FlyReplay: f.Forwarding != nil && *f.Forwarding == "fly-replay",
	}
	for _, s := range f.Secrets {
		c.Secrets = append(c.Secrets, strings.TrimSpace(s))
	}
	switch given := [3]bool{f.TLSCert != "", f.TLSKey != "", f.TLSCA != ""}; given {
	case [3]bool{}:
	case [3]bool{true, true, true}:
		c.TLS = &peer.TLS{Cert: f.TLSCert, Key: f.TLSKey, CA: f.TLSCA}
	default:
		return nil, errors.New("TLS between nodes needs --cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca")
	}
	return c, nil
}
