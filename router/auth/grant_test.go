package auth_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/router/auth"
)

func grant(tb rapid.TB, ops []auth.Op, streams ...string) auth.Grant {
	tb.Helper()
	keys := parseKeys(tb, secret)
	token := mint(tb, keys, auth.Claims{Ops: ops, Streams: streams, Expires: time.Now().Add(time.Hour)})
	g, err := auth.NewVerifier(auth.Config{Keys: keys}).Verify(token)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func TestPatternsMatch(t *testing.T) {
	tests := []struct {
		pattern, id string
		want        bool
	}{
		{"a", "a", true},
		{"a", "A", false},
		{"a", "ab", false},
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "any/thing ü😀*", true},
		{"user-7/*", "user-7/chat", true},
		{"user-7/*", "user-77/chat", false},
		{"user-7/*", "user-7/", true},
		{"*-public", "x-public", true},
		{"*-public", "x-public-not", false},
		{"a*b", "ab", true},
		{"a*b", "axb", true},
		{"aa*aa", "aaa", false},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "ac", false},
		{"a*bc*bc", "abcbc", true},
		{"a*bc*bc", "abc", false},
		{"**", "x", true},
		{"a**c", "abc", true},
		{"é*", "é", true},
		{`\*`, "*", true},
		{`\*`, "x", false},
		{`a\\b`, `a\b`, true},
		{`a\b`, `a\b`, true},
		{`\\*`, `\x`, true},
		{`a\`, `a\`, true},
		{".*", "x", false},
		{"a?", "ab", false},
	}
	for _, tt := range tests {
		if got := grant(t, []auth.Op{auth.Read}, tt.pattern).Allows(auth.Read, tt.id); got != tt.want {
			t.Errorf("pattern %q on id %q: got %v, want %v", tt.pattern, tt.id, got, tt.want)
		}
	}
}

// oracle is the same pattern as a regular expression.
func oracle(pattern string) *regexp.Regexp {
	literal := regexp.MustCompile(`\\[*\\]|[^*]|\*`)
	return regexp.MustCompile(`(?s)\A` + literal.ReplaceAllStringFunc(pattern, func(s string) string {
		switch {
		case s == "*":
			return ".*"
		case len(s) == 2 && s[0] == '\\':
			return regexp.QuoteMeta(s[1:])
		default:
			return regexp.QuoteMeta(s)
		}
	}) + `\z`)
}

func TestPatternsMatchAsARegexpDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune(`aab*\ü`)), 0, 12, -1).Draw(t, "pattern")
		var id string
		if rapid.Bool().Draw(t, "fill") {
			// Fill the stars, so that many of the ids do match.
			fill := rapid.StringOfN(rapid.SampledFrom([]rune(`ab*\ü`)), 0, 3, -1)
			id = regexp.MustCompile(`\*`).ReplaceAllStringFunc(pattern, func(string) string { return fill.Draw(t, "fill") })
		} else {
			id = rapid.StringOfN(rapid.SampledFrom([]rune(`ab*\ü`)), 0, 12, -1).Draw(t, "id")
		}
		got := grant(t, []auth.Op{auth.Read}, pattern).Allows(auth.Read, id)
		if want := oracle(pattern).MatchString(id); got != want {
			t.Fatalf("pattern %q on id %q: got %v, want %v", pattern, id, got, want)
		}
	})
}

func TestOpsAreGrantedOneByOne(t *testing.T) {
	all := []auth.Op{auth.Read, auth.Write, auth.Cancel, auth.Admin}
	for _, listed := range all {
		g := grant(t, []auth.Op{listed}, "s-*")
		for _, asked := range all {
			if got, want := g.Allows(asked, "s-1"), asked == listed; got != want {
				t.Errorf("%s listed, %s asked: got %v, want %v", listed, asked, got, want)
			}
			if got, want := g.Allows(asked, "other"), asked == listed && asked == auth.Admin; got != want {
				t.Errorf("%s listed, %s asked of another stream: got %v, want %v", listed, asked, got, want)
			}
		}
	}
}

func TestGrantsWithoutToken(t *testing.T) {
	var none auth.Grant
	if none.Allows(auth.Read, "s") || none.Allows(auth.Admin, "") {
		t.Error("the zero grant allows something")
	}
	g := auth.AllowAll()
	if !g.Allows(auth.Write, "s") || !g.Allows(auth.Admin, "") || !g.Expires().IsZero() {
		t.Error("the open grant does not allow all for ever")
	}
}

// A denial must not tell a stream that exists from one that does not: the
// answer depends on the two names alone.
func TestAnotherUsersStreamIsDeniedLikeOneThatIsNot(t *testing.T) {
	b := grant(t, []auth.Op{auth.Read, auth.Write, auth.Cancel}, "b/*")
	for _, op := range []auth.Op{auth.Read, auth.Write, auth.Cancel} {
		for _, id := range []string{"a/S", "no-such-id", "a/b/S", strings.ToUpper("b/x")} {
			if b.Allows(op, id) {
				t.Errorf("%s of %s is allowed", op, id)
			}
		}
	}
}
