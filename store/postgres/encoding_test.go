package postgres_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// encoded is an empty database with an encoding.
func encoded(t *testing.T, encoding string) string {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	beside := u.String()
	u.Path += "_" + strings.ToLower(encoding)
	pgtest.Exec(t, beside, fmt.Sprintf("CREATE DATABASE %s ENCODING '%s' LOCALE 'C' TEMPLATE template0", u.Path[1:], encoding))
	t.Cleanup(func() { pgtest.Exec(t, beside, "DROP DATABASE "+u.Path[1:]+" WITH (FORCE)") })
	return u.String()
}

func TestADatabaseWhoseEncodingLacksCharactersIsRefused(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), encoded(t, "LATIN1"), postgres.Config{})
	if !errors.Is(err, plane.ErrConfig) || !strings.Contains(err.Error(), "LATIN1") {
		t.Errorf("got %v", err)
	}
}

// Such a database counts bytes where others count characters.
func TestADatabaseWithoutAnEncodingHasTheSameText(t *testing.T) {
	t.Parallel()
	s := open(t, encoded(t, "SQL_ASCII"))
	wantPages(t, s)
}

func TestASessionsEncodingIsNotTheRoles(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	pgtest.Exec(t, address, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET client_encoding = LATIN1', current_database()); END $$")
	s, db := open(t, address), pgtest.Pool(t, address)
	wantPages(t, s)
	var units int
	if err := db.QueryRow(t.Context(), "SELECT length(body) FROM rillkeep.streams").Scan(&units); err != nil || units != 100_000 {
		t.Errorf("others see a text of %d characters, %v", units, err)
	}
}

// wantPages checks that a text of more characters than lie between two marks is
// read back at any offset, before and after its end.
func wantPages(t *testing.T, s *postgres.Store) {
	t.Helper()
	var text strings.Builder
	for n := range 20_000 {
		fmt.Fprintf(&text, "é%04d", n%10_000)
	}
	row := claim(t, s, "s")
	want := func(when string) {
		t.Helper()
		for _, from := range []int64{0, 32_768, 70_001, 99_995} {
			want := plane.Skip(text.String(), from)
			page, err := s.Text(t.Context(), "s", from, 5)
			if err != nil || page.From != from || !strings.HasPrefix(want, page.Text) || plane.Units(page.Text) != 5 {
				t.Errorf("%s, from %d: %q at %d, %v", when, from, page.Text, page.From, err)
			}
		}
	}
	if _, err := s.Append(t.Context(), plane.Slice{ID: "s", Token: row.Token, Seq: 100_000, Text: text.String()}); err != nil {
		t.Fatal(err)
	}
	want("live")
	_, err := s.Seal(t.Context(), plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 100_000, Seq: 100_000, Text: text.String()})
	if err != nil {
		t.Fatal(err)
	}
	want("ended")
}
