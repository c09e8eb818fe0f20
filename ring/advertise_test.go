package ring

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestTheAdvertisedAddressCanBeReachedOrIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                   string
		advertise, bound, want string
		primary                string
		fails                  string
	}{
		{name: "bound to one address", bound: "10.0.0.1:7946", want: "10.0.0.1:7946"},
		{name: "bound to one IPv6 address", bound: "[fd00::1]:7946", want: "[fd00::1]:7946"},
		{name: "bound to all", bound: "0.0.0.0:7946", primary: "10.0.0.2", want: "10.0.0.2:7946"},
		{name: "bound to all of IPv6", bound: "[::]:7946", primary: "fd00::2", want: "[fd00::2]:7946"},
		{name: "bound to all, without a usable address", bound: "0.0.0.0:7946", fails: "Advertise"},
		{name: "an address", advertise: "192.0.2.1", bound: "0.0.0.0:7946", want: "192.0.2.1:7946"},
		{name: "an address and a published port", advertise: "192.0.2.1:17946", bound: "0.0.0.0:7946", want: "192.0.2.1:17946"},
		{name: "an IPv6 address", advertise: "2001:db8::1", bound: "[::]:7946", want: "[2001:db8::1]:7946"},
		{name: "an IPv6 address in brackets", advertise: "[2001:db8::1]", bound: "[::]:7946", want: "[2001:db8::1]:7946"},
		{name: "an IPv6 address and a port", advertise: "[2001:db8::1]:17946", bound: "[::]:7946", want: "[2001:db8::1]:17946"},
		{name: "a name", advertise: "localhost:17946", bound: "0.0.0.0:7946", want: "127.0.0.1:17946"},
		{name: "an unspecified address", advertise: "0.0.0.0:7946", bound: "10.0.0.1:7946", fails: `Advertise (--advertise) "0.0.0.0:7946"`},
		{name: "an unspecified IPv6 address", advertise: "::", bound: "10.0.0.1:7946", fails: `Advertise (--advertise) "::"`},
		{name: "no port", advertise: "10.0.0.1:", bound: "10.0.0.1:7946", fails: "port"},
		{name: "no host", advertise: ":7946", bound: "10.0.0.1:7946", fails: "Advertise"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := advertised(t.Context(), c.advertise, netip.MustParseAddrPort(c.bound), func() (netip.Addr, error) {
				if c.primary == "" {
					return netip.Addr{}, errors.New("none")
				}
				return netip.MustParseAddr(c.primary), nil
			})
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v, error %v", got, err)
				}
			} else if err != nil || got.String() != c.want {
				t.Errorf("%v, error %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestThePrimaryAddressIsThePrivateOneOfTheDefaultRoute(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, addrs, want string }{
		{"the default route's first", "10.0.0.1 172.17.0.1", "10.0.0.1"},
		{"private before public", "203.0.113.7 192.168.1.2", "192.168.1.2"},
		{"IPv4 before IPv6", "fd00::1 10.0.0.1", "10.0.0.1"},
		{"private IPv6 before public IPv4", "203.0.113.7 fd00::1", "fd00::1"},
		{"a public address only", "127.0.0.1 203.0.113.7", "203.0.113.7"},
		{"IPv6 only", "::1 fe80::1 2001:db8::1", "2001:db8::1"},
		{"IPv4 in IPv6", "::ffff:10.0.0.1", "10.0.0.1"},
		{"nothing of use", "127.0.0.1 ::1 fe80::1 169.254.0.1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var addrs []netip.Addr
			for _, a := range strings.Fields(c.addrs) {
				addrs = append(addrs, netip.MustParseAddr(a))
			}
			got, err := preferred(addrs)
			if c.want == "" {
				if err == nil {
					t.Errorf("%v", got)
				}
			} else if err != nil || got.String() != c.want {
				t.Errorf("%v, error %v; want %s", got, err, c.want)
			}
		})
	}
}
