package auth_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/router/auth"
)

const secret = "canary-0123456789-0123456789-0123456789"

// pair returns a new Ed25519 key as PEM.
func pair(tb testing.TB) (private, public string) {
	tb.Helper()
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return privatePEM(tb, priv), publicPEM(tb, pub)
}

func privatePEM(tb testing.TB, key any) string {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func publicPEM(tb testing.TB, key any) string {
	tb.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func parseKeys(tb rapid.TB, text string) *auth.Keys {
	tb.Helper()
	keys, err := auth.ParseKeys(text)
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

func mint(tb rapid.TB, keys *auth.Keys, c auth.Claims) string {
	tb.Helper()
	token, err := keys.Mint(c)
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

// reader are claims that may read all for an hour.
func reader() auth.Claims {
	return auth.Claims{Ops: []auth.Op{auth.Read}, Streams: []string{"*"}, Expires: time.Now().Add(time.Hour)}
}

func TestKeysOfAllKindsAreRead(t *testing.T) {
	private, public := pair(t)
	binary := strings.Repeat("\x00\xff\n", 12)
	tests := map[string]struct{ text, want string }{
		"a raw secret":                {secret, "HS256"},
		"a secret in base64":          {"base64:" + base64.StdEncoding.EncodeToString([]byte(binary)), "HS256"},
		"a secret in URL base64":      {"base64: " + base64.RawURLEncoding.EncodeToString([]byte(binary)), "HS256"},
		"a public key":                {public, "EdDSA"},
		"a private key":               {private, "EdDSA"},
		"CRLF line ends":              {strings.ReplaceAll("kid: a\n"+public+secret, "\n", "\r\n"), "a (EdDSA), HS256"},
		"a byte order mark":           {"\ufeff# a comment of more than thirty-two bytes\n" + secret, "HS256"},
		"several, some of them named": {"# old\n\nkid: b\n" + secret + "\nkid: 2026-11\n" + private + public, "b (HS256), 2026-11 (EdDSA), EdDSA"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := parseKeys(t, tt.text).String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestWhatIsNoKeyIsRefusedAndNotQuoted(t *testing.T) {
	private, public := pair(t)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Split(public, "\n")[1]
	tests := map[string]struct{ text, want string }{
		"nothing":                  {"\n# canary\n", "no key found"},
		"a short secret":           {"canary", "line 1: secret has 6 bytes"},
		"a short decoded secret":   {"base64:Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2E=", "secret has 26 bytes"},
		"no base64":                {"base64:!canary", "not base64"},
		"a secret with a blank":    {"canary " + secret, "white space"},
		"an SSH key":               {"ssh-ed25519 AAAAC3canaryC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsa", "white space"},
		"a JSON key":               {`{"kty":"OKP","crv":"Ed25519","x":"canary-0123456789"}`, "JSON"},
		"a bare public key":        {body, "without the lines"},
		"a PEM block without head": {"canary-----END PUBLIC KEY-----01234567890", "stands alone"},
		"an unfinished PEM block":  {"\n" + public[:80], "line 2: PEM block is damaged"},
		"a broken PEM block":       {"-----BEGIN PUBLIC KEY-----\ncanary\n-----END PUBLIC KEY-----\n" + public, "line 1: PEM block"},
		"an unreadable public key": {"-----BEGIN PUBLIC KEY-----\nY2FuYXJ5\n-----END PUBLIC KEY-----\n", "cannot be parsed"},
		"an unreadable private key": {
			"-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----\n", "cannot be parsed"},
		"an ECDSA key":          {publicPEM(t, curve.Public()), "no Ed25519 key"},
		"an ECDSA private key":  {privatePEM(t, curve), "no Ed25519 key"},
		"a certificate":         {strings.ReplaceAll(private, "PRIVATE KEY", "CERTIFICATE"), "no Ed25519 key"},
		"a kid for two keys":    {"kid: canary\n" + secret + "\nkid: canary\n" + secret, "line 3: kid names a second"},
		"a kid without a key":   {secret + "\nkid: canary", "no key follows"},
		"an empty kid":          {"kid:\n" + secret, "kid is not of"},
		"a long kid":            {"kid:" + strings.Repeat("canary", 20) + "\n" + secret, "kid is not of"},
		"a second key that bad": {public + private + "canary", "line 7: secret has 6"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := auth.ParseKeys(tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), body[:16]) {
				t.Errorf("error quotes the text: %v", err)
			}
		})
	}
}

func TestKeysFileIsBounded(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if _, err := auth.LoadKeys(write("good", secret+"\n")); err != nil {
		t.Error(err)
	}
	for name, path := range map[string]string{
		"missing": filepath.Join(dir, "none"),
		"large":   write("large", strings.Repeat("#canary\n", 9000)),
		"empty":   write("empty", ""),
	} {
		if _, err := auth.LoadKeys(path); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	keys := parseKeys(t, "kid: a\n"+secret)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(verb, keys); strings.Contains(got, "canary") || strings.Contains(got, "99 97") {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

func FuzzParseKeys(f *testing.F) {
	private, public := pair(f)
	f.Add(secret + "\n" + private)
	f.Add("kid: a\r\n" + public + "kid: b\n" + "base64:" + secret)
	f.Add("-----BEGIN PUBLIC KEY-----\n-----BEGIN PUBLIC KEY-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := auth.ParseKeys(text)
		if (keys == nil) != (err != nil) {
			t.Fatalf("got %v, %v", keys, err)
		}
	})
}
