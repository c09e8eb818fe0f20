package ring

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/hashicorp/memberlist"
)

func checkSecrets(secrets []string) error {
	if len(secrets) == 0 {
		return errors.New("setting Secrets is required: gossip is always encrypted")
	}
	for i, secret := range secrets {
		if len(secret) < MinSecret {
			return fmt.Errorf("setting Secrets[%d] is %d bytes, at least %d", i, len(secret), MinSecret)
		}
	}
	return nil
}

// gossipKey derives the key of gossip: no two clusters share one, even if they
// share a secret, nor does gossip with any other use of the secret.
func gossipKey(secret, cluster string) ([]byte, error) {
	return hkdf.Key(sha256.New, []byte(secret), []byte(cluster), "rillkeep gossip 1", 32)
}

func gossipKeys(secrets []string, cluster string) ([][]byte, error) {
	var keys [][]byte
	for _, secret := range secrets {
		key, err := gossipKey(secret, cluster)
		if err != nil {
			return nil, fmt.Errorf("derive gossip key: %w", err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// newKeyring accepts all secrets and uses the first. A cluster changes its secret
// without a gap in three rounds of restarts of all its nodes: old, new; then new, old;
// then new alone.
func newKeyring(secrets []string, cluster string) (*memberlist.Keyring, error) {
	keys, err := gossipKeys(secrets, cluster)
	if err != nil {
		return nil, err
	}
	return memberlist.NewKeyring(keys, keys[0])
}
