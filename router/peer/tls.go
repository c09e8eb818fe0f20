package peer

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLS names the files, in PEM, by which members know each other: each shows a
// certificate that the cluster's authority signed, and accepts nothing else.
// The authority must sign for this cluster alone: whoever holds a certificate of
// it is a member. Names and addresses in certificates are not looked at, since
// members go by addresses that change. TLS 1.3 or newer.
type TLS struct {
	Cert string // this member's certificate, good for clients and servers, then intermediate ones
	Key  string
	CA   string // one or more authorities
}

// config gives the settings for both ends of connections.
func (t *TLS) config() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("%w: load the certificate for other members: %w", errConfig, err)
	}
	pem, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, fmt.Errorf("%w: load the authority of the cluster: %w", errConfig, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%w: load the authority of the cluster: no certificate in %s", errConfig, t.CA)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		// The usual check would want the address in the certificate; verifyServer
		// makes all of it but this.
		InsecureSkipVerify: true,
		VerifyConnection:   verifyServer(pool),
	}, nil
}

// verifyServer refuses a server without a certificate of the authority. Servers
// have their clients' certificates checked before by ClientAuth.
func verifyServer(pool *x509.CertPool) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return fmt.Errorf("%w: no certificate", ErrNotPeer)
		}
		intermediates := x509.NewCertPool()
		for _, c := range state.PeerCertificates[1:] {
			intermediates.AddCert(c)
		}
		_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
			Roots:         pool,
			Intermediates: intermediates,
			KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotPeer, err)
		}
		return nil
	}
}
