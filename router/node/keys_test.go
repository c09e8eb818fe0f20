package node_test

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"rillkeep.dev/rillkeep/router/auth"
)

// keys are a node's, with what it takes to sign tokens that Mint would refuse.
type keys struct {
	*auth.Keys
	secret []byte
}

func newKeys(tb testing.TB) keys {
	tb.Helper()
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	k, err := auth.ParseKeys("base64:" + base64.StdEncoding.EncodeToString(secret))
	if err != nil {
		tb.Fatal(err)
	}
	return keys{k, secret}
}

// token mints a token, for an hour unless the claims say otherwise.
func (k keys) token(tb testing.TB, c auth.Claims) string {
	tb.Helper()
	if c.Expires.IsZero() {
		c.Expires = time.Now().Add(time.Hour)
	}
	token, err := k.Mint(c)
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

// sign signs any claims.
func (k keys) sign(tb testing.TB, claims jwt.MapClaims) string {
	tb.Helper()
	claims["aud"] = cmp.Or(claims["aud"], any(auth.DefaultAudience))
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(k.secret)
	if err != nil {
		tb.Fatal(err)
	}
	return token
}
