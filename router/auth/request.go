package auth

import (
	"net/http"
	"net/url"
	"strings"
)

const (
	cookieName = "rillkeep_token"
	queryName  = "access_token"
)

// FromRequest returns the token that r carries. It looks in this order and
// takes the first it finds, without regard to the others:
//
//	the first Authorization header, if its scheme is Bearer
//	the cookie rillkeep_token
//	the first access_token of the query, for EventSource, which cannot set a header
//
// An empty one counts as none, and so does an Authorization of another scheme,
// which a proxy in front may own. A cookie travels with requests that other
// sites cause: who serves them must refuse cross-origin writes.
func FromRequest(r *http.Request) (token string, ok bool) {
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		if token = strings.TrimSpace(token); token != "" {
			return token, true
		}
	}
	if c, err := r.Cookie(cookieName); err == nil && c.Value != "" {
		return c.Value, true
	}
	if token := r.URL.Query().Get(queryName); token != "" {
		return token, true
	}
	return "", false
}

const redacted = "REDACTED"

// RedactURL returns u as it may be logged: without user, fragment and all of
// the query that may hold a secret; see [RedactQuery].
func RedactURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	safe := *u
	safe.User, safe.Fragment, safe.RawFragment = nil, "", ""
	safe.RawQuery = RedactQuery(u.RawQuery)
	return safe.String()
}

// RedactQuery returns a raw query as it may be logged. Only the values of the
// parameters that the API knows and that are not secret are kept, so that a
// token under a misspelt or oddly encoded name does not get through.
func RedactQuery(raw string) string {
	if raw == "" {
		return ""
	}
	pairs := strings.FieldsFunc(raw, func(r rune) bool { return r == '&' || r == ';' })
	for i, pair := range pairs {
		pairs[i] = redactPair(pair)
	}
	return strings.Join(pairs, "&")
}

func redactPair(pair string) string {
	name, value, _ := strings.Cut(pair, "=")
	switch name {
	case "from", "plane", "status", "prefix", "after", "limit":
		// Another pair may hide in the value; most ids stay readable.
		if strings.ContainsAny(value, "=?") || strings.Contains(value, "%3") || strings.Contains(value, "%25") {
			return name + "=" + redacted
		}
		return pair
	case queryName, "token":
		return name + "=" + redacted
	default:
		return redacted
	}
}
