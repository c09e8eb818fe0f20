package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Claims are what a token is minted with.
type Claims struct {
	Subject   string    // who it is for; may be ""
	Ops       []Op      // required
	Streams   []string  // patterns; required unless Ops is Admin alone
	Audience  string    // "" means DefaultAudience
	NotBefore time.Time // zero means at once
	Expires   time.Time // required; whole seconds count
}

// wireClaims is the payload of a token.
type wireClaims struct {
	jwt.RegisteredClaims
	Ops     []Op     `json:"ops"`
	Streams []string `json:"streams,omitempty"`
}

// Mint makes a token, signed with the first key that can sign: the newest one
// belongs at the top of the file. It refuses claims that grant nothing.
func (k *Keys) Mint(c Claims) (string, error) {
	if err := c.check(); err != nil {
		return "", fmt.Errorf("mint token: %w", err)
	}
	claims := wireClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject:   c.Subject,
			Audience:  jwt.ClaimStrings{audience(c.Audience)},
			ExpiresAt: jwt.NewNumericDate(c.Expires),
			IssuedAt:  jwt.NewNumericDate(time.Now()),
		},
		Ops:     c.Ops,
		Streams: c.Streams,
	}
	if !c.NotBefore.IsZero() {
		claims.NotBefore = jwt.NewNumericDate(c.NotBefore)
	}
	for _, key := range k.keys {
		if key.sign == nil {
			continue
		}
		token := jwt.NewWithClaims(key.method, claims)
		if key.id != "" {
			token.Header["kid"] = key.id
		}
		signed, err := token.SignedString(key.sign)
		if err != nil {
			return "", fmt.Errorf("sign token: %w", err)
		}
		if len(signed) > maxToken {
			return "", fmt.Errorf("mint token: longer than %d KiB", maxToken>>10)
		}
		return signed, nil
	}
	return "", errors.New("mint token: no key can sign")
}

func (c Claims) check() error {
	adminOnly := true
	for _, op := range c.Ops {
		if !op.known() {
			return fmt.Errorf("unknown op %q", op)
		}
		adminOnly = adminOnly && op == Admin
	}
	switch {
	case len(c.Ops) == 0:
		return errors.New("no ops")
	case len(c.Streams) == 0 && !adminOnly:
		return errors.New("no streams")
	case !c.Expires.After(time.Now()):
		return errors.New("expiry is not in the future")
	case !c.NotBefore.IsZero() && !c.Expires.After(c.NotBefore):
		return errors.New("expiry is not after the start")
	}
	return nil
}
