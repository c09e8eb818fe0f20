//go:build unix

package pgtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
)

// Secured starts a server on TCP that lets role in by its password alone, and
// over TLS alone. The URL trusts the certificate that the server has. It ends
// with the test; its own URL is for who sets it up.
func Secured(tb testing.TB, role, password string) (s *server.Server, address string) {
	tb.Helper()
	certificate, key := Certificate(tb)
	dir := Folder(tb, map[string]string{
		"key": key, "crt": certificate,
		"hba": "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n",
	})
	host := FreeAddress(tb)
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		tb.Fatal(err)
	}
	s, err = server.Start(tb.Context(), append([]string{
		"listen_addresses=127.0.0.1", "port=" + port, "hba_file=" + filepath.Join(dir, "hba"),
		"ssl=on", "ssl_cert_file=" + filepath.Join(dir, "crt"), "ssl_key_file=" + filepath.Join(dir, "key"),
	}, forTests...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Error(err)
		}
	})
	Exec(tb, s.URL(), "CREATE DATABASE app")
	Exec(tb, s.URL(), fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'; ALTER DATABASE app OWNER TO %s", role, password, role))
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, password), Host: host, Path: "/app"}
	u.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {filepath.Join(dir, "crt")}}.Encode()
	return s, u.String()
}

// Certificate answers a certificate for 127.0.0.1 that signs itself, and its key.
func Certificate(tb testing.TB) (certificate, key string) {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rillkeep test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		tb.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}
