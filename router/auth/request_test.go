package auth_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/router/auth"
)

func TestTokenIsTakenFromTheFirstPlaceThatHasOne(t *testing.T) {
	tests := map[string]struct {
		header http.Header
		query  string
		want   string
	}{
		"nothing":               {nil, "", ""},
		"a bearer":              {http.Header{"Authorization": {"Bearer T1"}}, "", "T1"},
		"another case":          {http.Header{"Authorization": {"bEARER  T1 "}}, "", "T1"},
		"a cookie":              {http.Header{"Cookie": {"a=b; rillkeep_token=T2"}}, "", "T2"},
		"a query":               {nil, "?from=3&access_token=T3", "T3"},
		"an encoded query":      {nil, "?access%5Ftoken=T%33", "T3"},
		"all three":             {http.Header{"Authorization": {"Bearer T1"}, "Cookie": {"rillkeep_token=T2"}}, "?access_token=T3", "T1"},
		"cookie and query":      {http.Header{"Cookie": {"rillkeep_token=T2"}}, "?access_token=T3", "T2"},
		"two bearers":           {http.Header{"Authorization": {"Bearer T1", "Bearer T9"}}, "", "T1"},
		"two cookies":           {http.Header{"Cookie": {"rillkeep_token=T2; rillkeep_token=T9"}}, "", "T2"},
		"two parameters":        {nil, "?access_token=T3&access_token=T9", "T3"},
		"an empty bearer":       {http.Header{"Authorization": {"Bearer "}}, "?access_token=T3", "T3"},
		"an empty cookie":       {http.Header{"Cookie": {"rillkeep_token="}}, "?access_token=T3", "T3"},
		"an empty parameter":    {nil, "?access_token=", ""},
		"another scheme":        {http.Header{"Authorization": {"Basic dTpw"}, "Cookie": {"rillkeep_token=T2"}}, "", "T2"},
		"a token alone":         {http.Header{"Authorization": {"T1"}}, "", ""},
		"another parameter":     {nil, "?token=T3", ""},
		"a scheme run together": {http.Header{"Authorization": {"BearerT1"}}, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/v1/streams/s"+tt.query, nil)
			if tt.header != nil {
				r.Header = tt.header
			}
			got, ok := auth.FromRequest(r)
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("got %q, %v, want %q", got, ok, tt.want)
			}
		})
	}
}

const canary = "SECRET-CANARY-123"

func TestRedactedQueryKeepsWhatIsSafe(t *testing.T) {
	tests := []struct{ raw, want string }{
		{"", ""},
		{"from=12@3&plane=live", "from=12@3&plane=live"},
		{"status=streaming&prefix=u%2F&after=a%20b&limit=5", "status=streaming&prefix=u%2F&after=a%20b&limit=5"},
		{"access_token=" + canary, "access_token=REDACTED"},
		{"from=1&access_token=" + canary + "&plane=live", "from=1&access_token=REDACTED&plane=live"},
		{"token=" + canary, "token=REDACTED"},
		{"from=1;token=" + canary, "from=1&token=REDACTED"},
	}
	for _, tt := range tests {
		if got := auth.RedactQuery(tt.raw); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.raw, got, tt.want)
		}
	}
}

func TestNoFormOfAQueryLeaksItsToken(t *testing.T) {
	for _, raw := range []string{
		"Access_Token=" + canary,
		"access%5Ftoken=" + canary,
		"%61ccess_token=" + canary,
		"access_token%zz=" + canary,
		"access_token=%zz" + canary,
		"access_token=" + canary + "=",
		"access_token=a=" + canary,
		"access_token&" + canary,
		"id_token=" + canary,
		"key=" + canary,
		canary,
		canary + "=1",
		"&&;access_token=" + canary,
		"from=1?access_token=" + canary,
		"prefix=/x%3Faccess_token%3D" + canary,
		"prefix=%253Faccess_token%253D" + canary,
		"after=%2fx%3faccess_token%3d" + canary,
	} {
		if got := auth.RedactQuery(raw); strings.Contains(got, canary) {
			t.Errorf("%q: got %q", raw, got)
		}
		u := &url.URL{Scheme: "http", Host: "node:8080", Path: "/v1/streams/s", RawQuery: raw}
		if got := auth.RedactURL(u); strings.Contains(got, canary) {
			t.Errorf("%v: got %q", u, got)
		}
	}
}

func TestRedactedURL(t *testing.T) {
	tests := []struct{ raw, want string }{
		{"/v1/streams/a%2Fb?from=3&access_token=" + canary, "/v1/streams/a%2Fb?from=3&access_token=REDACTED"},
		{"http://" + canary + ":" + canary + "@h/p?x=" + canary + "#" + canary, "http://h/p?REDACTED"},
		{"/readyz", "/readyz"},
	}
	for _, tt := range tests {
		u, err := url.Parse(tt.raw)
		if err != nil {
			t.Fatal(err)
		}
		before := u.String()
		if got := auth.RedactURL(u); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		if u.String() != before {
			t.Errorf("URL was changed to %q", u)
		}
	}
	if got := auth.RedactURL(nil); got != "" {
		t.Errorf("got %q of nil", got)
	}
}
