package ring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// bindAddr takes Bind apart; an empty host is every address of the machine.
func bindAddr(ctx context.Context, bind string) (netip.AddrPort, error) {
	host, number, err := net.SplitHostPort(bind)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("setting Bind %q is not host:port: %w", bind, err)
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("setting Bind %q has no port number: %w", bind, err)
	}
	ip := netip.IPv4Unspecified()
	if host != "" {
		if ip, err = hostIP(ctx, host); err != nil {
			return netip.AddrPort{}, fmt.Errorf("setting Bind %q: %w", bind, err)
		}
	}
	return netip.AddrPortFrom(ip, uint16(port)), nil
}

// advertised answers the address that others are told, for a node that listens on
// bound: never an unspecified one.
func advertised(ctx context.Context, advertise string, bound netip.AddrPort, primary func() (netip.Addr, error)) (netip.AddrPort, error) {
	if advertise == "" {
		if !bound.Addr().IsUnspecified() {
			return bound, nil
		}
		ip, err := primary()
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("no address to advertise, set Advertise (--advertise): %w", err)
		}
		return netip.AddrPortFrom(ip, bound.Port()), nil
	}
	host, port := advertise, uint64(bound.Port())
	if h, number, err := net.SplitHostPort(advertise); err == nil {
		host = h
		if port, err = strconv.ParseUint(number, 10, 16); err != nil || port == 0 {
			return netip.AddrPort{}, fmt.Errorf("setting Advertise (--advertise) %q has no port number", advertise)
		}
	}
	ip, err := hostIP(ctx, host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("setting Advertise (--advertise) %q: %w", advertise, err)
	}
	if ip.IsUnspecified() {
		return netip.AddrPort{}, fmt.Errorf("setting Advertise (--advertise) %q is no address that others can reach", advertise)
	}
	return netip.AddrPortFrom(ip, uint16(port)), nil
}

// hostIP answers the address that host is, or resolves to, IPv4 if it has both.
func hostIP(ctx context.Context, host string) (netip.Addr, error) {
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap(), nil
	}
	if host == "" {
		return netip.Addr{}, errors.New("no host")
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Is4() {
			return ip, nil
		}
	}
	return ips[0].Unmap(), nil
}

// primaryIP answers the address of this machine that others most likely reach.
func primaryIP() (netip.Addr, error) {
	var routes []netip.Addr
	for _, anywhere := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} { // documentation addresses; nothing is sent
		if conn, err := net.Dial("udp", anywhere); err == nil {
			routes = append(routes, conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr())
			_ = conn.Close()
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil && len(routes) == 0 {
		return netip.Addr{}, fmt.Errorf("list interfaces: %w", err)
	}
	for _, addr := range addrs {
		if prefix, err := netip.ParsePrefix(addr.String()); err == nil {
			routes = append(routes, prefix.Addr())
		}
	}
	return preferred(routes)
}

// preferred picks among a machine's addresses, those of its default routes first:
// a private one, else a public one, and in either IPv4 before IPv6.
func preferred(addrs []netip.Addr) (best netip.Addr, err error) {
	rank := 0
	for _, ip := range addrs {
		ip = ip.Unmap()
		if !ip.IsGlobalUnicast() {
			continue // loopback, link-local and multicast reach nobody
		}
		r := 1
		if ip.IsPrivate() {
			r += 2
		}
		if ip.Is4() {
			r++
		}
		if r > rank {
			best, rank = ip.WithZone(""), r
		}
	}
	if rank == 0 {
		return netip.Addr{}, errors.New("this machine has no address but loopback and link-local ones")
	}
	return best, nil
}
