package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Why a request has no grant; both are 401. No message holds any part of a
// token.
var (
	ErrNoToken = errors.New("no token given")
	ErrInvalid = errors.New("token is not valid") // wrapped with the reason
)

// DefaultAudience is the aud that a node expects and Mint writes.
const DefaultAudience = "rillkeep"

const (
	defaultLeeway = 10 * time.Second
	maxToken      = 8 << 10 // bytes
)

func audience(s string) string {
	if s == "" {
		return DefaultAudience
	}
	return s
}

// Config is what a [Verifier] checks tokens against.
type Config struct {
	Keys     *Keys         // required
	Audience string        // must be among a token's aud; "" means DefaultAudience
	Leeway   time.Duration // how far clocks may be apart at exp and nbf; 0 means 10s
}

// Verifier checks tokens. It is safe for concurrent use.
type Verifier struct {
	keys   *Keys
	leeway time.Duration
	parser *jwt.Parser
}

// NewVerifier returns a verifier of cfg. Without keys it refuses every token.
func NewVerifier(cfg Config) *Verifier {
	keys, leeway := cfg.Keys, cfg.Leeway
	if keys == nil {
		keys = &Keys{}
	}
	if leeway <= 0 {
		leeway = defaultLeeway
	}
	return &Verifier{keys: keys, leeway: leeway, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg(), jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithAudience(audience(cfg.Audience)),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(leeway),
		jwt.WithStrictDecoding(),
	)}
}

// Verify checks a token and answers what it grants. It fails with ErrNoToken
// for "" and with ErrInvalid else. A token that is signed and in time but names
// no known op or no stream is valid and grants nothing.
func (v *Verifier) Verify(token string) (Grant, error) {
	switch {
	case token == "":
		return Grant{}, ErrNoToken
	case len(token) > maxToken:
		return Grant{}, fmt.Errorf("%w: too long", ErrInvalid)
	}
	var claims wireClaims
	if _, err := v.parser.ParseWithClaims(token, &claims, v.candidates); err != nil {
		// The library's message may quote the token: only its kind is passed on.
		return Grant{}, fmt.Errorf("%w: %s", ErrInvalid, reason(err))
	}
	g := Grant{subject: claims.Subject, expires: claims.ExpiresAt.Add(v.leeway)}
	for _, op := range claims.Ops {
		if op.known() {
			g.ops = append(g.ops, op)
		}
	}
	for _, s := range claims.Streams {
		g.streams = append(g.streams, parsePattern(s))
	}
	return g, nil
}

func (v *Verifier) candidates(t *jwt.Token) (any, error) {
	if _, ok := t.Header["crit"]; ok {
		return nil, errors.New("critical header is not understood") // RFC 7515, 4.1.11
	}
	kid, _ := t.Header["kid"].(string)
	return jwt.VerificationKeySet{Keys: v.keys.candidates(t.Method.Alg(), kid)}, nil
}

func reason(err error) string {
	switch {
	case errors.Is(err, jwt.ErrTokenMalformed):
		return "malformed"
	case errors.Is(err, jwt.ErrTokenUnverifiable), errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return "not signed with a key of ours"
	case errors.Is(err, jwt.ErrTokenExpired):
		return "expired"
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return "not valid yet"
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return "made for another audience"
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return "lacks exp or aud"
	default:
		return "not acceptable"
	}
}
