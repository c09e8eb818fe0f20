package node_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/peer"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// authority signs the certificates of a cluster's nodes.
type authority struct {
	tb   testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
}

func newAuthority(tb testing.TB) *authority {
	a := &authority{tb: tb}
	var der []byte
	a.key, der = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	a.file = a.write("CERTIFICATE", der)
	return a
}

func (a *authority) sign(cert *x509.Certificate) (*ecdsa.PrivateKey, []byte) {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatal(err)
	}
	cert.SerialNumber, cert.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
	parent, parentKey := a.cert, a.key
	if parent == nil { // its own
		parent, parentKey = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, parentKey)
	if err != nil {
		a.tb.Fatal(err)
	}
	return key, der
}

func (a *authority) write(kind string, der []byte) string {
	a.tb.Helper()
	path := filepath.Join(a.tb.TempDir(), "file.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.tb.Fatal(err)
	}
	return path
}

// node makes the files of a node that trusts those of this authority.
func (a *authority) node() *peer.TLS {
	a.tb.Helper()
	key, cert := a.sign(&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.tb.Fatal(err)
	}
	return &peer.TLS{Cert: a.write("CERTIFICATE", cert), Key: a.write("EC PRIVATE KEY", der), CA: a.file}
}

func TestNodesWithCertificatesServeEachOtherAndNobodyElse(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	cfg := node.Config{Database: pgtest.URL(t)}
	join := func(name string, tls *peer.TLS) *running {
		cfg.Name = name
		cfg.Cluster = &node.Cluster{
			Secrets: []string{clusterSecret}, GossipListen: "127.0.0.1:0", PeerListen: "127.0.0.1:0", TLS: tls,
		}
		return openNode(t, cfg)
	}
	nodes := []*running{join("n1", ours.node()), join("n2", ours.node())}
	awaitMembers(t, nodes)
	nodes[0].open("m1")
	hosting, far := host(t, nodes, "m1")
	pos := far[0].push("m1", 0, "through another node, ")
	far[0].push("m1", pos, "encrypted")
	// They have the secret, and so the ring; the stream they can't have.
	for name, tls := range map[string]*peer.TLS{"n3": nil, "n4": others.node()} {
		n := join(name, tls)
		await(t, "it knows of the others", func() bool { return len(n.cluster().Members) >= 3 })
		if a := n.do(http.MethodPost, path("m1", "append"), `{"text":"x"}`); a.status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if err := n.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	}
	hosting.seal("m1")
	if text, _ := far[0].text("m1", "from=0"); text != "through another node, encrypted" {
		t.Errorf("read %q", text)
	}
}
