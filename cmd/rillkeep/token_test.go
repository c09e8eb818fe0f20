package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/node"
)

const secret = "thirty-two-bytes-or-more-of-this-secret"

// privateKey is an Ed25519 key made for these tests.
const privateKey = `kid: new
-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g
-----END PRIVATE KEY-----
`

func testKeys(t *testing.T, text string) *auth.Keys {
	t.Helper()
	keys, err := auth.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func keysFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mint returns a token that rillkeep token made.
func mint(t *testing.T, keys string, args ...string) string {
	t.Helper()
	got := command(t.Context(), nil, append([]string{"token", "--keys", keysFile(t, keys)}, args...)...)
	token, ended := strings.CutSuffix(got.out, "\n")
	if got.code != 0 || got.err != "" || !ended || strings.ContainsAny(token, " \n") {
		t.Fatalf("token: %+v", got)
	}
	return token
}

func TestMintedTokensAllowWhatTheySay(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]string{"a secret": secret, "an Ed25519 key": privateKey + secret} {
		s := openServer(t, node.Config{Keys: testKeys(t, keys)})
		s.command(t, "text", "push", "chat-17", "--token", mint(t, keys, "--ops", "write")).want(t, 0, "", "")
		for _, tt := range []struct {
			token string
			args  string
			code  int
		}{
			{mint(t, keys), "show chat-17", 0},
			{mint(t, keys), "tail chat-17", 0},
			{mint(t, keys), "cancel chat-17", exitDenied},
			{mint(t, keys), "ls", exitDenied},
			{mint(t, keys, "--ops", "admin"), "ls", 0},
			{mint(t, keys, "--ops", "cancel,read"), "cancel chat-17", 0},
			{mint(t, keys, "--streams", "chat-17"), "show chat-17", 0},
			{mint(t, keys, "--streams", "chat-*,x"), "show chat-17", 0},
			{mint(t, keys, "--streams", "chat-*"), "show m1", exitDenied},
			{mint(t, keys), "show m1", exitNotFound},
			{mint(t, keys, "--audience", "another"), "show chat-17", exitDenied},
			{mint(t, strings.Repeat("other", 8)), "show chat-17", exitDenied},
			{mint(t, keys, "--ttl", "1h30m", "--subject", "app"), "show chat-17", 0},
		} {
			got := s.command(t, "", append(strings.Fields(tt.args), "--token", tt.token)...)
			if got.code != tt.code {
				t.Errorf("%s: rillkeep %s: %+v, want exit %d", name, tt.args, got, tt.code)
			}
		}
	}
}

func TestTokensThatCannotBeMintedAreRefused(t *testing.T) {
	t.Parallel()
	const public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAebVWLo/mVPlAeLES6KmLp5AfhTrmlb7X4OORC60ElmQ=\n-----END PUBLIC KEY-----\n"
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no file":         {[]string{"--keys", filepath.Join(t.TempDir(), "none")}, "no such file"},
		"a short secret":  {[]string{"--keys", keysFile(t, "hush")}, "HS256 needs at least 32"},
		"only public key": {[]string{"--keys", keysFile(t, public)}, "no key can sign"},
		"expired at once": {[]string{"--keys", keysFile(t, secret), "--ttl=-1s"}, "expiry is not in the future"},
	} {
		got := command(t.Context(), nil, append([]string{"token"}, tt.args...)...)
		if got.code != exitFailure || got.out != "" || !strings.Contains(got.err, tt.want) || strings.Contains(got.err, "hush") {
			t.Errorf("%s: %+v, want %q", name, got, tt.want)
		}
	}
}
