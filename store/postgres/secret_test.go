package postgres_test

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

const secret = "s3cr3t-pass"

// with is a URL with another part.
func with(t *testing.T, address string, change func(u *url.URL, query url.Values)) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	change(u, query)
	u.RawQuery = query.Encode()
	return u.String()
}

func TestTLSIsAsTheURLSays(t *testing.T) {
	t.Parallel()
	_, good := pgtest.Secured(t, "app", secret)
	other, _ := pgtest.Certificate(t)
	stranger := filepath.Join(pgtest.Folder(t, map[string]string{"ca": other}), "ca")
	set := func(name, value string) string {
		return with(t, good, func(_ *url.URL, query url.Values) { query.Set(name, value) })
	}
	s := open(t, good)
	claim(t, s, "s")
	// By TCP the locks of a machine that is gone don't stay, nor those of a process that hangs.
	if got := postgres.Ends(t, s); got != "30s 10 5 3" {
		t.Errorf("its sessions end by %q", got)
	}

	for name, tt := range map[string]struct {
		url  string
		want []string // what the error says
	}{
		"another authority":  {set("sslrootcert", stranger), []string{"tls: ", "certificate signed by unknown authority"}},
		"another host":       {with(t, good, func(u *url.URL, _ url.Values) { u.Host = "localhost:" + u.Port() }), []string{"tls: ", "localhost"}},
		"no such file":       {set("sslrootcert", "/nowhere/ca.crt"), []string{"no such file"}},
		"no TLS":             {with(t, good, func(_ *url.URL, query url.Values) { query.Del("sslrootcert"); query.Set("sslmode", "disable") }), []string{"no encryption", "28000"}},
		"no such mode":       {set("sslmode", "maybe"), []string{"sslmode is invalid"}},
		"another password":   {with(t, good, func(u *url.URL, _ url.Values) { u.User = url.UserPassword("app", "wrong-"+secret) }), []string{"28P01"}},
		"no such role":       {with(t, good, func(u *url.URL, _ url.Values) { u.User = url.UserPassword("nobody", secret) }), []string{"28P01"}},
		"no such database":   {with(t, good, func(u *url.URL, _ url.Values) { u.Path = "/none" }), []string{"3D000", "none"}},
		"no such host":       {with(t, good, func(u *url.URL, _ url.Values) { u.Host = "no-such-host.invalid:1" }), []string{"no-such-host.invalid"}},
		"no such port":       {with(t, good, func(u *url.URL, _ url.Values) { u.Host = pgtest.FreeAddress(t) }), []string{"connection refused"}},
		"no such setting":    {set("no_such_setting", "1"), []string{"no_such_setting"}},
		"no such file's key": {set("sslkey", "/nowhere/key"), []string{"both \"sslcert\" and \"sslkey\""}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for way, open := range map[string]func() error{
			"store": func() error { _, err := postgres.Open(ctx, tt.url, postgres.Config{}); return err },
			"name": func() error {
				s, err := postgres.Open(ctx, good, postgres.Config{DirectURL: tt.url})
				if err != nil {
					return err
				}
				defer pgtest.Close(t, s)
				return supersede(t, s, "n1", "boot1")
			},
		} {
			err := open()
			if err == nil {
				t.Errorf("%s, %s: no error", name, way)
				continue
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s, %s: got %v, want %q", name, way, err, want)
				}
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("%s, %s: the password shows: %v", name, way, err)
			}
		}
	}
}
