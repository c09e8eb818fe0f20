package auth_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"rillkeep.dev/rillkeep/router/auth"
)

// sign makes a token of claims as they are, also such as Mint would refuse.
func sign(tb testing.TB, method jwt.SigningMethod, key any, header map[string]any, claims jwt.MapClaims) string {
	tb.Helper()
	token := jwt.NewWithClaims(method, claims)
	for name, value := range header {
		token.Header[name] = value
	}
	signed, err := token.SignedString(key)
	if err != nil {
		tb.Fatal(err)
	}
	return signed
}

func good() jwt.MapClaims {
	return jwt.MapClaims{"aud": "rillkeep", "exp": time.Now().Add(time.Hour).Unix(), "ops": []string{"read"}, "streams": []string{"*"}}
}

// with is good() with one claim changed, or left out for nil.
func with(name string, value any) jwt.MapClaims {
	c := good()
	c[name] = value
	if value == nil {
		delete(c, name)
	}
	return c
}

func TestVerifyRefuses(t *testing.T) {
	private, public := pair(t)
	der, _ := pem.Decode([]byte(public))
	key, err := x509.ParsePKIXPublicKey(der.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte(key.(ed25519.PublicKey))
	both := parseKeys(t, "kid: mac\n"+secret+"\nkid: ed\n"+private)
	publicOnly := parseKeys(t, public)
	hs := func(claims jwt.MapClaims) string { return sign(t, jwt.SigningMethodHS256, []byte(secret), nil, claims) }
	now := time.Now()
	valid := hs(good())
	parts := strings.Split(valid, ".")
	unpadded := base64.RawURLEncoding.EncodeToString

	tests := map[string]struct {
		keys  *auth.Keys
		token string
		want  string
	}{
		"no token":                        {both, "", "no token"},
		"expired":                         {both, hs(with("exp", now.Add(-time.Minute).Unix())), "expired"},
		"without exp":                     {both, hs(with("exp", nil)), "lacks exp"},
		"exp that is no number":           {both, hs(with("exp", "tomorrow")), "malformed"},
		"not valid yet":                   {both, hs(with("nbf", now.Add(time.Minute).Unix())), "not valid yet"},
		"another audience":                {both, hs(with("aud", "other")), "another audience"},
		"without an audience":             {both, hs(with("aud", nil)), "lacks exp or aud"},
		"an empty audience":               {both, hs(with("aud", []string{})), "lacks exp or aud"},
		"ops that are no list":            {both, hs(with("ops", "read write")), "malformed"},
		"streams that are no list":        {both, hs(with("streams", map[string]string{})), "malformed"},
		"another secret":                  {both, sign(t, jwt.SigningMethodHS256, []byte("x"+secret), nil, good()), "not signed with a key"},
		"another kid than its key's":      {both, sign(t, jwt.SigningMethodHS256, []byte(secret), map[string]any{"kid": "ed"}, good()), "not signed with a key"},
		"an unknown kid":                  {both, sign(t, jwt.SigningMethodHS256, []byte(secret), map[string]any{"kid": "new"}, good()), "not signed with a key"},
		"a critical extension":            {both, sign(t, jwt.SigningMethodHS256, []byte(secret), map[string]any{"crit": []string{"b64"}, "b64": false}, good()), "not signed with a key"},
		"HS512 with the right secret":     {both, sign(t, jwt.SigningMethodHS512, []byte(secret), nil, good()), "not signed with a key"},
		"alg none":                        {both, sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, good()), "not signed with a key"},
		"alg none with a signature":       {both, unpadded([]byte(`{"alg":"none"}`)) + "." + parts[1] + "." + parts[2], "not signed with a key"},
		"alg in another case":             {both, unpadded([]byte(`{"alg":"hs256"}`)) + "." + parts[1] + "." + parts[2], "not signed with a key"},
		"the public key's bytes as HMAC":  {publicOnly, sign(t, jwt.SigningMethodHS256, raw, nil, good()), "not signed with a key"},
		"the public key's DER as HMAC":    {publicOnly, sign(t, jwt.SigningMethodHS256, der.Bytes, nil, good()), "not signed with a key"},
		"the public key's PEM as HMAC":    {publicOnly, sign(t, jwt.SigningMethodHS256, []byte(public), nil, good()), "not signed with a key"},
		"HS256 named as the Ed25519 key":  {both, sign(t, jwt.SigningMethodHS256, raw, map[string]any{"kid": "ed"}, good()), "not signed with a key"},
		"a changed payload":               {both, parts[0] + "." + unpadded([]byte(`{"aud":"rillkeep","exp":9999999999}`)) + "." + parts[2], "not signed with a key"},
		"no signature":                    {both, parts[0] + "." + parts[1] + ".", "not signed with a key"},
		"two parts":                       {both, parts[0] + "." + parts[1], "malformed"},
		"four parts":                      {both, valid + "." + parts[2], "malformed"},
		"no base64":                       {both, "canary.canary!.canary", "malformed"},
		"no JSON":                         {both, unpadded([]byte("canary")) + "." + parts[1] + "." + parts[2], "malformed"},
		"a scheme in front":               {both, "Bearer " + valid, "malformed"},
		"padded base64":                   {both, parts[0] + "." + parts[1] + "." + parts[2] + "=", "malformed"},
		"one that is too long":            {both, valid + strings.Repeat("a", 8<<10), "too long"},
		"all of them, where no key is":    {nil, valid, "not signed with a key"},
		"expired ones signed by another":  {both, sign(t, jwt.SigningMethodHS256, []byte("x"+secret), nil, with("exp", 1)), "not signed with a key"},
		"an exp past the end of all time": {both, hs(with("exp", 1e300)), "expired"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, err := auth.NewVerifier(auth.Config{Keys: tt.keys}).Verify(tt.token)
			want := auth.ErrInvalid
			if tt.token == "" {
				want = auth.ErrNoToken
			}
			if !errors.Is(err, want) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if g.Allows(auth.Read, "s") {
				t.Error("refused token grants something")
			}
			for _, part := range strings.Split(tt.token, ".") {
				if len(part) > 3 && strings.Contains(err.Error(), part) {
					t.Errorf("error quotes the token: %v", err)
				}
			}
		})
	}
}

func TestVerifyGrants(t *testing.T) {
	private, public := pair(t)
	hs := func(claims jwt.MapClaims) string { return sign(t, jwt.SigningMethodHS256, []byte(secret), nil, claims) }
	tests := map[string]struct {
		keys  *auth.Keys
		token string
	}{
		"HS256":                        {parseKeys(t, secret), hs(good())},
		"one of several audiences":     {parseKeys(t, secret), hs(with("aud", []string{"other", "rillkeep"}))},
		"a clock that is a bit behind": {parseKeys(t, secret), hs(with("exp", time.Now().Add(-3*time.Second).Unix()))},
		"a clock that is a bit ahead":  {parseKeys(t, secret), hs(with("nbf", time.Now().Add(3*time.Second).Unix()))},
		"an unknown op beside":         {parseKeys(t, secret), hs(with("ops", []string{"later", "read"}))},
		"EdDSA by its public key":      {parseKeys(t, public), mint(t, parseKeys(t, private), reader())},
		"EdDSA by its private key":     {parseKeys(t, private), mint(t, parseKeys(t, private), reader())},
		"the old key of a rotation":    {parseKeys(t, private+secret), hs(good())},
		"an old key without a name":    {parseKeys(t, "kid: new\nx"+secret+"\n"+secret), hs(good())},
		"a kid, for a key without one": {parseKeys(t, secret), mint(t, parseKeys(t, "kid: a\n"+secret), reader())},
		"a kid among several": {
			parseKeys(t, "kid: a\nx"+secret+"\nkid: b\n"+secret), mint(t, parseKeys(t, "kid: b\n"+secret), reader())},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, err := auth.NewVerifier(auth.Config{Keys: tt.keys}).Verify(tt.token)
			if err != nil {
				t.Fatal(err)
			}
			if !g.Allows(auth.Read, "s") || g.Allows(auth.Write, "s") || g.Allows("later", "s") {
				t.Errorf("grants %+v, want read alone", g)
			}
		})
	}
}

func TestAudienceAndLeewayAreConfigurable(t *testing.T) {
	keys := parseKeys(t, secret)
	claims := reader()
	claims.Audience = "elsewhere"
	token := mint(t, keys, claims)
	if _, err := auth.NewVerifier(auth.Config{Keys: keys, Audience: "elsewhere"}).Verify(token); err != nil {
		t.Error(err)
	}
	if _, err := auth.NewVerifier(auth.Config{Keys: keys}).Verify(token); !errors.Is(err, auth.ErrInvalid) {
		t.Errorf("got %v, want %v", err, auth.ErrInvalid)
	}
	late := sign(t, jwt.SigningMethodHS256, []byte(secret), nil, with("exp", time.Now().Add(-time.Minute).Unix()))
	if _, err := auth.NewVerifier(auth.Config{Keys: keys, Leeway: 2 * time.Minute}).Verify(late); err != nil {
		t.Error(err)
	}
}

func TestGrantEndsWhenItsTokenDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := parseKeys(t, secret)
		v := auth.NewVerifier(auth.Config{Keys: keys})
		claims := reader()
		claims.Subject = "user-1"
		token := mint(t, keys, claims)
		g, err := v.Verify(token)
		if err != nil {
			t.Fatal(err)
		}
		if g.Subject() != "user-1" {
			t.Errorf("got subject %q", g.Subject())
		}
		time.Sleep(time.Until(g.Expires()) - time.Nanosecond)
		if _, err := v.Verify(token); err != nil {
			t.Errorf("just before its end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := v.Verify(token); !errors.Is(err, auth.ErrInvalid) {
			t.Errorf("at its end: got %v, want %v", err, auth.ErrInvalid)
		}
	})
}

func TestMintRefuses(t *testing.T) {
	_, public := pair(t)
	keys := parseKeys(t, secret)
	tests := map[string]struct {
		keys   *auth.Keys
		change func(*auth.Claims)
		want   string
	}{
		"a public key":      {parseKeys(t, public), func(*auth.Claims) {}, "no key can sign"},
		"no ops":            {keys, func(c *auth.Claims) { c.Ops = nil }, "no ops"},
		"an unknown op":     {keys, func(c *auth.Claims) { c.Ops = []auth.Op{"reed"} }, `unknown op "reed"`},
		"no streams":        {keys, func(c *auth.Claims) { c.Streams = nil }, "no streams"},
		"no expiry":         {keys, func(c *auth.Claims) { c.Expires = time.Time{} }, "not in the future"},
		"an expiry gone by": {keys, func(c *auth.Claims) { c.Expires = time.Now() }, "not in the future"},
		"a start after it":  {keys, func(c *auth.Claims) { c.NotBefore = c.Expires }, "not after the start"},
		"too much":          {keys, func(c *auth.Claims) { c.Subject = strings.Repeat("s", 8<<10) }, "longer than 8 KiB"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := reader()
			tt.change(&c)
			if _, err := tt.keys.Mint(c); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestMintedStartIsKept(t *testing.T) {
	keys := parseKeys(t, secret)
	c := reader()
	c.NotBefore = time.Now().Add(30 * time.Minute)
	_, err := auth.NewVerifier(auth.Config{Keys: keys}).Verify(mint(t, keys, c))
	if err == nil || !strings.Contains(err.Error(), "not valid yet") {
		t.Errorf("got %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	private, _ := pair(f)
	keys := parseKeys(f, secret+"\n"+private)
	v := auth.NewVerifier(auth.Config{Keys: keys})
	token := mint(f, keys, reader())
	f.Add(token)
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, s string) {
		if g, err := v.Verify(s); s != token && (err == nil || g.Allows(auth.Read, "s")) {
			t.Errorf("%q is accepted: %v", s, err)
		}
	})
}
