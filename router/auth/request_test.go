package auth_test

import (
	"net/http"
	"net/http/httptest"
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

func TestAQueryIsPassedOnWithoutItsTokens(t *testing.T) {
	for query, want := range map[string]string{
		"":                             "",
		"from=3":                       "from=3",
		"from=3&access_token=T":        "from=3",
		"access_token=T&access_token=": "",
		"access%5Ftoken=T&from=3":      "from=3",
		"from=3&%zz&access_token=T":    "from=3",
	} {
		if got := auth.WithoutToken(query); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}
