// Package generate calls language models: it sends a request to one of the upstreams
// that the server knows, and yields the text of the response as it comes. It knows no
// streams and no HTTP server.
//
// A request never says where it goes: upstreams have names, and a redirect to another
// host is a failure. Until the first of a response is there a call that failed may be
// made again, after what the provider asks for and within a bound; afterwards never,
// or the text would be there twice.
//
// The messages of all errors are fit for readers: they hold no address, no key and no
// text. What is left out is behind errors.Unwrap.
package generate

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/upstream"
)

// Defaults of Config.
const (
	DefaultFirstByte   = time.Minute
	DefaultBetween     = time.Minute
	DefaultWhole       = 10 * time.Minute
	DefaultLength      = time.Hour
	DefaultMaxResponse = int64(64 << 20)
	DefaultPatience    = 30 * time.Second
)

// Config says what models can be called, and how long they may take. A Config
// without upstreams calls none.
type Config struct {
	// Upstreams by their names, which are unique. The first of format openai is the
	// one that chat completions go to unless they name another.
	Upstreams []Upstream

	FirstByte   time.Duration // from a request to the first byte of its response; 0 means DefaultFirstByte
	Between     time.Duration // from one byte of a response to the next; 0 means DefaultBetween
	Whole       time.Duration // to the first byte of a response that comes in one piece; 0 means DefaultWhole
	Length      time.Duration // of a whole call; 0 means DefaultLength
	MaxResponse int64         // bytes of a response, the provider's format included; 0 means DefaultMaxResponse

	// Patience is how long all waits between the attempts of one call may take
	// together, those that a provider asks for included; 0 means DefaultPatience.
	Patience time.Duration

	Logger *slog.Logger // nil discards
}

// Upstream is where a provider takes requests.
type Upstream struct {
	Name   string          // a to z, 0 to 9 and hyphens
	Format upstream.Format // OpenAI, Responses or Anthropic
	URL    string          // base URL, http or https; without a path it gets /v1
	Key    Key             // "" for an upstream that asks for none
}

// Key opens an upstream. It prints as nothing that would.
type Key string

// String implements fmt.Stringer.
func (k Key) String() string {
	if k == "" {
		return ""
	}
	return "[key]"
}

// GoString implements fmt.GoStringer.
func (k Key) GoString() string { return k.String() }

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// known are the upstreams that need not be spelt out, and where their users have
// their keys.
var known = map[string]struct {
	Upstream
	env string
}{
	"openai":    {Upstream{Name: "openai", Format: upstream.OpenAI, URL: "https://api.openai.com/v1"}, "OPENAI_API_KEY"},
	"anthropic": {Upstream{Name: "anthropic", Format: upstream.Anthropic, URL: "https://api.anthropic.com/v1"}, "ANTHROPIC_API_KEY"},
}

// ParseUpstream reads name=format:baseURL; openai and anthropic alone are those
// providers' own. The key is what the environment, which getenv answers for, has as
// KeyVariable(name); the two providers' own also take their usual variable. No other
// upstream is sent the key of that.
func ParseUpstream(s string, getenv func(string) string) (Upstream, error) {
	if k, ok := known[s]; ok {
		k.Key = Key(cmp.Or(getenv(KeyVariable(s)), getenv(k.env)))
		return k.Upstream, k.Upstream.check()
	}
	name, rest, ok := strings.Cut(s, "=")
	format, base, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 {
		return Upstream{}, fmt.Errorf("upstream %.40q is neither openai nor anthropic alone, nor of the form name=format:baseURL", name)
	}
	u := Upstream{Name: name, Format: upstream.Format(format), URL: base, Key: Key(getenv(KeyVariable(name)))}
	return u, u.check()
}

// KeyVariable is the environment variable that holds an upstream's key, such as
// RILLKEEP_UPSTREAM_MY_MODEL_KEY for my-model.
func KeyVariable(name string) string {
	return "RILLKEEP_UPSTREAM_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_KEY"
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)

// check answers what is wrong with u, without its key.
func (u Upstream) check() error {
	if !nameForm.MatchString(u.Name) {
		return fmt.Errorf("an upstream's name has 1 to 64 of a to z, 0 to 9 and hyphens, not %.70q", u.Name)
	}
	if !slices.Contains([]upstream.Format{upstream.OpenAI, upstream.Responses, upstream.Anthropic}, u.Format) {
		return fmt.Errorf("upstream %s: format %.30q is not openai, openai-responses or anthropic", u.Name, u.Format)
	}
	base, err := url.Parse(u.URL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return fmt.Errorf("upstream %s: its base is no http or https URL", u.Name)
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return fmt.Errorf("upstream %s: its base URL has a user, a query or a fragment; the key is given as %s", u.Name, KeyVariable(u.Name))
	case strings.ContainsFunc(string(u.Key), func(c rune) bool { return c <= ' ' || c > '~' }):
		return fmt.Errorf("upstream %s: its key has blanks, or what no key has", u.Name)
	}
	return nil
}

// paths of the formats' calls, below the base URL.
var paths = map[upstream.Format]string{
	upstream.OpenAI: "/chat/completions", upstream.Responses: "/responses", upstream.Anthropic: "/messages",
}

// anthropicVersion is the one whose events the parser reads.
const anthropicVersion = "2023-06-01"

// endpoint is the URL of u's call.
func (u Upstream) endpoint() string {
	base, err := url.Parse(u.URL)
	if err == nil && strings.Trim(base.Path, "/") == "" {
		base.Path = "/v1"
		return base.String() + paths[u.Format]
	}
	return strings.TrimRight(u.URL, "/") + paths[u.Format]
}

// authorize gives a request u's key.
func (u Upstream) authorize(h http.Header) {
	if u.Format == upstream.Anthropic {
		h.Set("anthropic-version", anthropicVersion)
	}
	switch {
	case u.Key == "":
	case u.Format == upstream.Anthropic:
		h.Set("x-api-key", string(u.Key))
	default:
		h.Set("Authorization", "Bearer "+string(u.Key))
	}
}

// Validate answers what is wrong with c, with plane.ErrConfig.
func (c Config) Validate() error {
	names := make(map[string]bool)
	for _, u := range c.Upstreams {
		if err := u.check(); err != nil {
			return fmt.Errorf("%w: %w", plane.ErrConfig, err)
		}
		if names[u.Name] {
			return fmt.Errorf("%w: two upstreams are called %s", plane.ErrConfig, u.Name)
		}
		names[u.Name] = true
	}
	if c.FirstByte < 0 || c.Between < 0 || c.Whole < 0 || c.Length < 0 || c.Patience < 0 || c.MaxResponse < 0 {
		return fmt.Errorf("%w: the bounds of a generation must be 0 or more", plane.ErrConfig)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.FirstByte = cmp.Or(c.FirstByte, DefaultFirstByte)
	c.Between = cmp.Or(c.Between, DefaultBetween)
	c.Whole = cmp.Or(c.Whole, DefaultWhole)
	c.Length = cmp.Or(c.Length, DefaultLength)
	c.MaxResponse = cmp.Or(c.MaxResponse, DefaultMaxResponse)
	c.Patience = cmp.Or(c.Patience, DefaultPatience)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}
