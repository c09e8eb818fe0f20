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

// WithoutToken returns a raw query without the tokens in it: it can be passed on.
func WithoutToken(rawQuery string) string {
	query, _ := url.ParseQuery(rawQuery) // what it can't read is nothing that FromRequest reads
	if !query.Has(queryName) {
		return rawQuery
	}
	query.Del(queryName)
	return query.Encode()
}
