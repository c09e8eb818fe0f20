package peer_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/router/peer"
)

// authority signs members' certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func writePEM(t testing.TB, dir, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func certificate(t testing.TB, tmpl, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	tmpl.SerialNumber = big.NewInt(time.Now().UnixNano())
	tmpl.Subject = pkix.Name{CommonName: "test"}
	tmpl.NotBefore = time.Now().Add(-time.Hour)
	if tmpl.NotAfter.IsZero() {
		tmpl.NotAfter = time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	tmpl := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der := certificate(t, tmpl, tmpl, a.key, a.key)
	a.cert, _ = x509.ParseCertificate(der)
	a.file = writePEM(t, t.TempDir(), "ca.pem", "CERTIFICATE", der)
	return a
}

// member gives files of a certificate that this authority signed, and that trusts
// another one.
func (a *authority) member(t testing.TB, trusts *authority, tmpl x509.Certificate) *peer.TLS {
	t.Helper()
	key := newKey(t)
	if tmpl.ExtKeyUsage == nil {
		tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	dir := t.TempDir()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &peer.TLS{
		Cert: writePEM(t, dir, "cert.pem", "CERTIFICATE", certificate(t, &tmpl, a.cert, key, a.key)),
		Key:  writePEM(t, dir, "key.pem", "EC PRIVATE KEY", der),
		CA:   trusts.file,
	}
}

func TestCertificatesAuthenticateBothEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := newAuthority(t), newAuthority(t)
		good := func() *peer.TLS { return ours.member(t, ours, x509.Certificate{}) }
		expired := ours.member(t, ours, x509.Certificate{NotAfter: time.Now().Add(-time.Minute)})
		clientOnly := ours.member(t, ours, x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		serverOnly := ours.member(t, ours, x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		cases := []struct {
			name           string
			client, server *peer.TLS
			secrets        [2][]peer.Secret
			want           error
		}{
			{name: "good", client: good(), server: good()},
			{name: "good, and the secret", client: good(), server: good(), secrets: [2][]peer.Secret{{secret}, {secret}}},
			{name: "good, but another secret", client: good(), server: good(), secrets: [2][]peer.Secret{{"another one's secret"}, {secret}}, want: peer.ErrDenied},
			{name: "client of another authority", client: theirs.member(t, ours, x509.Certificate{}), server: good(), want: peer.ErrDenied},
			{name: "server of another authority", client: good(), server: theirs.member(t, ours, x509.Certificate{}), want: peer.ErrNotPeer},
			{name: "expired client", client: expired, server: good(), want: peer.ErrDenied},
			{name: "expired server", client: good(), server: expired, want: peer.ErrNotPeer},
			{name: "client not good for clients", client: serverOnly, server: good(), want: peer.ErrDenied},
			{name: "server not good for servers", client: good(), server: clientOnly, want: peer.ErrNotPeer},
		}
		for _, tc := range cases {
			n := newNetwork()
			b := peer.Peer{Name: "b", Addr: "b:1"}
			n.serve(t, peer.ServerConfig{
				Identity: peer.Identity{Name: "b", Secrets: tc.secrets[1], TLS: tc.server},
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					from, _ := peer.From(r.Context())
					io.WriteString(w, from.Name)
				}),
			}, b.Addr)
			c := n.client(t, peer.Config{Identity: peer.Identity{Name: "a", Secrets: tc.secrets[0], TLS: tc.client}})
			_, body, err := ask(t.Context(), c, b, get("/"))
			t.Log(tc.name) // which one a failure is about
			if tc.want == peer.ErrDenied && errors.Is(err, peer.ErrUnreachable) {
				tc.want = peer.ErrUnreachable // it hung up before it could be heard why
			}
			wantErr(t, err, tc.want)
			if err == nil && body != "a" {
				t.Errorf("%s: caller was %q", tc.name, body)
			}
		}
	})
}

func TestWithCertificatesNamesStillCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newAuthority(t)
		n := newNetwork()
		n.serve(t, peer.ServerConfig{
			Identity: peer.Identity{Name: "b", TLS: ours.member(t, ours, x509.Certificate{})},
			Handler:  http.HandlerFunc(hello),
		}, "b:1")
		c := n.client(t, peer.Config{Identity: peer.Identity{Name: "a", TLS: ours.member(t, ours, x509.Certificate{})}})
		_, _, err := ask(t.Context(), c, peer.Peer{Name: "c", Addr: "b:1"}, get("/"))
		wantErr(t, err, peer.ErrNotPeer)
	})
}

func TestAMemberWithCertificatesTakesNoCleartextAndNoOldTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newAuthority(t)
		mine := ours.member(t, ours, x509.Certificate{})
		n := newNetwork()
		n.serve(t, peer.ServerConfig{
			Identity: peer.Identity{Name: "b", Secrets: []peer.Secret{secret}, TLS: mine}, Handler: http.HandlerFunc(hello),
		}, "b:1")
		_, _, err := ask(t.Context(), n.client(t, peer.Config{Identity: identity("a")}), peer.Peer{Name: "b", Addr: "b:1"}, get("/"))
		wantErr(t, err, peer.ErrUnreachable)

		cert, err := tls.LoadX509KeyPair(mine.Cert, mine.Key)
		if err != nil {
			t.Fatal(err)
		}
		for _, cfg := range []*tls.Config{
			{Certificates: []tls.Certificate{cert}, MaxVersion: tls.VersionTLS12},
			{}, // no certificate
		} {
			conn, err := n.Dial(t.Context(), "b:1")
			if err != nil {
				t.Fatal(err)
			}
			cfg.InsecureSkipVerify, cfg.NextProtos = true, []string{"h2"}
			if err := handshake(conn, cfg); err == nil {
				t.Errorf("version up to %x, %d certificates: accepted", cfg.MaxVersion, len(cfg.Certificates))
			}
			conn.Close()
		}
	})
}

// handshake shakes hands and reads on, since refusals of certificates come late.
func handshake(conn net.Conn, cfg *tls.Config) error {
	c := tls.Client(conn, cfg)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil {
		return err
	}
	if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) && strings.Contains(err.Error(), "tls") {
		return err
	}
	return nil
}
