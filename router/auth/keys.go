package auth

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

const (
	minSecret   = 32       // bytes; what HS256 hashes down to anyway
	maxKeysFile = 64 << 10 // bytes
	maxKeyID    = 64       // bytes
)

// Keys are the keys that a node verifies tokens with, several at once so that
// they can be rotated. They do not change and are safe for concurrent use.
type Keys struct{ keys []key }

// key is pinned to the one algorithm that its kind of key is for: what a
// token's header asks for only selects among keys, never how one is used.
type key struct {
	id     string
	method jwt.SigningMethod
	verify jwt.VerificationKey
	sign   any // nil if the key can only verify
}

// LoadKeys reads a file of keys; see [ParseKeys].
func LoadKeys(path string) (*Keys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open keys: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeysFile+1))
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if len(text) > maxKeysFile {
		return nil, fmt.Errorf("read keys %s: more than %d KiB", path, maxKeysFile>>10)
	}
	keys, err := ParseKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("read keys %s: %w", path, err)
	}
	return keys, nil
}

// ParseKeys reads keys from text: at least one, in any mix of
//
//	an HS256 secret, alone on its line: at least 32 bytes, taken as they are,
//	or decoded where the line begins with "base64:"
//	a PEM block with an Ed25519 key: PUBLIC KEY verifies, PRIVATE KEY (PKCS #8)
//	mints too
//
// A line "kid: name" names the key that follows. Empty lines and lines that
// begin with # are skipped. No error quotes the text.
func ParseKeys(text string) (*Keys, error) {
	keys := &Keys{}
	seen := make(map[string]bool)
	kid, line := "", 0
	for rest := []byte(strings.TrimPrefix(text, "\ufeff")); len(rest) > 0; {
		var row []byte
		block := rest
		row, rest, _ = bytes.Cut(rest, []byte("\n"))
		line++
		s := strings.TrimSpace(string(row))
		name, isName := strings.CutPrefix(s, "kid:")
		var k key
		var err error
		switch {
		case s == "" || strings.HasPrefix(s, "#"):
			continue
		case isName:
			if kid, err = parseKeyID(name, seen); err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
			continue
		case strings.HasPrefix(s, "-----BEGIN"):
			after := rest
			if k, after, err = parsePEM(block); err == nil {
				line += bytes.Count(rest[:len(rest)-len(after)], []byte("\n"))
				rest = after
			}
		default:
			k, err = parseSecret(s)
		}
		if err != nil {
			return nil, fmt.Errorf("key at line %d: %w", line, err)
		}
		k.id, kid = kid, ""
		keys.keys = append(keys.keys, k)
	}
	if kid != "" {
		return nil, errors.New("no key follows the last kid")
	}
	if len(keys.keys) == 0 {
		return nil, errors.New("no key found")
	}
	return keys, nil
}

func parseKeyID(s string, seen map[string]bool) (string, error) {
	s = strings.TrimSpace(s)
	switch {
	case s == "" || len(s) > maxKeyID:
		return "", fmt.Errorf("kid is not of 1 to %d bytes", maxKeyID)
	case seen[s]:
		return "", errors.New("kid names a second key")
	}
	seen[s] = true
	return s, nil
}

func parseSecret(s string) (key, error) {
	secret := []byte(s)
	if coded, ok := strings.CutPrefix(s, "base64:"); ok {
		var err error
		if secret, err = decodeBase64(coded); err != nil {
			return key{}, errors.New("secret is not base64")
		}
	} else if err := checkRaw(s); err != nil {
		return key{}, err
	}
	if len(secret) < minSecret {
		return key{}, fmt.Errorf("secret has %d bytes, HS256 needs at least %d", len(secret), minSecret)
	}
	return key{method: jwt.SigningMethodHS256, verify: secret, sign: secret}, nil
}

// checkRaw refuses a line that is not a secret but a mistake: taken as one it
// would be a secret that others know.
func checkRaw(s string) error {
	switch {
	case strings.Contains(s, "-----"):
		return errors.New("part of a PEM block stands alone")
	case strings.HasPrefix(s, "{"):
		return errors.New("JSON is not a key; use PEM or base64")
	case strings.ContainsAny(s, " \t"):
		return errors.New("secret has white space in it; write it in base64")
	}
	der, err := decodeBase64(s)
	if err != nil {
		return nil
	}
	if _, err := x509.ParsePKIXPublicKey(der); err == nil {
		return errors.New("public key stands without the lines of its PEM block")
	}
	return nil
}

// decodeBase64 reads both alphabets, padded or not.
func decodeBase64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.TrimSpace(s), "=")
	if strings.ContainsAny(s, "-_") {
		return base64.RawURLEncoding.DecodeString(s)
	}
	return base64.RawStdEncoding.DecodeString(s)
}

// parsePEM reads the block that text begins with.
func parsePEM(text []byte) (k key, rest []byte, err error) {
	block, rest := pem.Decode(text)
	// pem.Decode skips what it cannot read; a later block is no answer here.
	if block == nil || bytes.Count(text[:len(text)-len(rest)], []byte("-----BEGIN")) != 1 {
		return key{}, nil, errors.New("PEM block is damaged")
	}
	switch block.Type {
	case "PUBLIC KEY":
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return key{}, nil, errors.New("public key cannot be parsed")
		}
		if public, ok := public.(ed25519.PublicKey); ok {
			return key{method: jwt.SigningMethodEdDSA, verify: public}, rest, nil
		}
	case "PRIVATE KEY":
		private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return key{}, nil, errors.New("private key cannot be parsed")
		}
		if private, ok := private.(ed25519.PrivateKey); ok {
			public, _ := private.Public().(ed25519.PublicKey)
			return key{method: jwt.SigningMethodEdDSA, verify: public, sign: private}, rest, nil
		}
	}
	return key{}, nil, errors.New("PEM block holds no Ed25519 key")
}

// candidates are the keys that a token of this algorithm and kid may be
// verified with: those of that name; without one of that name those that have
// none; without a kid all.
func (k *Keys) candidates(alg, kid string) []jwt.VerificationKey {
	var named, unnamed, all []jwt.VerificationKey
	for _, key := range k.keys {
		if key.method.Alg() != alg {
			continue
		}
		all = append(all, key.verify)
		switch key.id {
		case kid:
			named = append(named, key.verify)
		case "":
			unnamed = append(unnamed, key.verify)
		}
	}
	switch {
	case kid == "":
		return all
	case len(named) > 0:
		return named
	default:
		return unnamed
	}
}

// String says how many keys there are and of which kind, for logs.
func (k *Keys) String() string {
	names := make([]string, 0, len(k.keys))
	for _, key := range k.keys {
		name := key.method.Alg()
		if key.id != "" {
			name = key.id + " (" + name + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// GoString keeps the secrets out of %#v.
func (k *Keys) GoString() string { return "auth.Keys{" + k.String() + "}" }
