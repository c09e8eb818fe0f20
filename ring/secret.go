package ring

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

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

// SetSecrets changes the cluster's secrets: the first is used from now on, all are
// accepted, others no more. A cluster changes its secret without a gap in three
// rounds over all its nodes: old, new; then new, old; then new alone.
func (r *Ring) SetSecrets(secrets []string) error {
	if err := checkSecrets(secrets); err != nil {
		return fmt.Errorf("set secrets: %w", err)
	}
	keys, err := gossipKeys(secrets, r.cfg.Cluster)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return install(r.keys, keys)
}

// install makes keys those of the ring, in their order. memberlist removes a key in
// place, under the eyes of who reads the list, unless it is the last one: so keys
// are put in front of what is to go, and that is removed from behind.
func install(ring *memberlist.Keyring, keys [][]byte) error {
	for _, key := range keys {
		if err := ring.AddKey(key); err != nil {
			return fmt.Errorf("add gossip key: %w", err)
		}
	}
	for _, key := range slices.Backward(keys) {
		if err := ring.UseKey(key); err != nil {
			return fmt.Errorf("use gossip key: %w", err)
		}
	}
	for _, old := range slices.Backward(ring.GetKeys()) {
		if slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(key, old) }) {
			continue
		}
		if err := ring.RemoveKey(old); err != nil {
			return fmt.Errorf("remove gossip key: %w", err)
		}
	}
	return nil
}

func newKeyring(secrets []string, cluster string) (*memberlist.Keyring, error) {
	keys, err := gossipKeys(secrets, cluster)
	if err != nil {
		return nil, err
	}
	return memberlist.NewKeyring(keys, keys[0])
}
