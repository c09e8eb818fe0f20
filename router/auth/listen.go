package auth

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// CheckListen refuses to listen on addr (host:port) without keys, unless only
// this machine can reach it: the host must be localhost, in 127.0.0.0/8 or ::1.
// With keys every address will do.
func CheckListen(addr string, haveKeys bool) error {
	if haveKeys {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("check listen address: %w", err)
	}
	if loopback(host) {
		return nil
	}
	return fmt.Errorf("refuse to listen on %q without keys: whoever can reach it could read and write every stream; "+
		"configure keys, or listen on loopback (%s)", addr, net.JoinHostPort("127.0.0.1", port))
}

// LocalHost reports whether a Host header names this machine. A node without
// keys should refuse other hosts: a web page whose name is made to resolve to
// 127.0.0.1 counts as same-origin in the browser that it runs in.
func LocalHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return loopback(strings.Trim(host, "[]"))
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
