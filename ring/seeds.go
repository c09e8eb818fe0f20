package ring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Seeds knows whom to join. It is asked again at every attempt. What it answers
// beside an error is used; the node's own address and those of members are passed
// over.
type Seeds interface {
	// Peers answers the gossip addresses of nodes, as IP:port.
	Peers(ctx context.Context) ([]string, error)
}

// Resolver is what is used of [net.Resolver].
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

var _ Resolver = (*net.Resolver)(nil)

// Static is a list of seeds.
type Static struct {
	Addrs    []string // host:port, or host for [DefaultPort]; names are resolved anew each time, to all their addresses
	Resolver Resolver // nil means net.DefaultResolver
}

// Peers answers the addresses of all seeds that can be resolved, and why others can't.
func (s Static) Peers(ctx context.Context) ([]string, error) {
	var peers []string
	var failed []error
	for _, addr := range s.Addrs {
		found, err := resolve(ctx, s.Resolver, addr)
		peers = append(peers, found...)
		failed = append(failed, err)
	}
	return peers, errors.Join(failed...)
}

// DNS is a name whose records are the seeds: with an underscore in front the SRV
// records of _service._proto.name, with their ports; else the A and AAAA records
// of host:port, or of host for [DefaultPort].
type DNS struct {
	Name     string
	Resolver Resolver // nil means net.DefaultResolver
}

// Peers looks the name up.
func (d DNS) Peers(ctx context.Context) ([]string, error) {
	if !strings.HasPrefix(d.Name, "_") {
		return resolve(ctx, d.Resolver, d.Name)
	}
	_, records, err := resolver(d.Resolver).LookupSRV(ctx, "", "", d.Name)
	var peers []string
	failed := []error{wrapLookup(d.Name, err)}
	for _, r := range records {
		found, err := resolve(ctx, d.Resolver, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
		peers = append(peers, found...)
		failed = append(failed, err)
	}
	return peers, errors.Join(failed...)
}

func resolver(r Resolver) Resolver {
	if r == nil {
		return net.DefaultResolver
	}
	return r
}

func wrapLookup(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("look up seed %s: %w", name, err)
}

// resolve answers all addresses of host:port or host, as IP:port.
func resolve(ctx context.Context, r Resolver, addr string) ([]string, error) {
	host, number, err := net.SplitHostPort(addr)
	if err != nil {
		host, number = strings.Trim(addr, "[]"), strconv.Itoa(DefaultPort)
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("seed %q has no port number", addr)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []string{netip.AddrPortFrom(ip.Unmap(), uint16(port)).String()}, nil
	}
	ips, err := resolver(r).LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, wrapLookup(host, err)
	}
	peers := make([]string, 0, len(ips))
	for _, ip := range ips {
		peers = append(peers, netip.AddrPortFrom(ip.Unmap(), uint16(port)).String())
	}
	return peers, nil
}
