package pg_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
)

// What a server says is of one row, so that a batch is worth dividing; or refused
// for good, so that nobody repeats it; or neither: then all wait for the server.
func TestWhatAServersErrorIsOf(t *testing.T) {
	for code, want := range map[string]struct{ ofOneRow, broken, busy bool }{
		"22021": {ofOneRow: true, broken: true}, // text that is none
		"23505": {ofOneRow: true, broken: true},
		"23514": {ofOneRow: true, broken: true},
		"42501": {ofOneRow: true, broken: true}, // a policy's, as well as a missing right
		"42P01": {ofOneRow: true, broken: true},
		"55P03": {ofOneRow: true, busy: true},
		"40P01": {ofOneRow: true}, // a deadlock
		"XX001": {ofOneRow: true}, // a damaged page
		"P0001": {ofOneRow: true}, // an application's trigger
		"08006": {},
		"08P01": {},
		"25006": {}, // read-only
		"28P01": {},
		"3D000": {},
		"53100": {}, // no room on the disk
		"53300": {}, // no connection is free
		"57014": {}, // statement_timeout, or asked to stop
		"57P01": {},
		"57P02": {},
		"57P03": {},
		"58030": {}, // the disk
	} {
		err := fmt.Errorf("append: %w", &pgconn.PgError{Severity: "ERROR", Code: code, Message: "said"})
		if pg.OneRows(err) != want.ofOneRow {
			t.Errorf("%s: of one row: %t", code, !want.ofOneRow)
		}
		failed := pg.Failed(t.Context(), err, "append to %q", "s")
		if errors.Is(failed, plane.ErrBroken) != want.broken || errors.Is(failed, store.ErrBusy) != want.busy || !errors.Is(failed, err) {
			t.Errorf("%s: %v", code, failed)
		}
		fatal := &pgconn.PgError{Severity: "FATAL", Code: code}
		if pg.OneRows(fatal) {
			t.Errorf("%s: the end of a session is of one row", code)
		}
	}
	for _, err := range []error{errors.New("broken pipe"), &pgconn.PgError{Code: "no such peer"}} { // as PgBouncer's
		if failed := pg.Failed(t.Context(), err, "append"); pg.OneRows(err) || errors.Is(failed, plane.ErrBroken) || errors.Is(failed, store.ErrBusy) {
			t.Errorf("%v", failed)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if failed := pg.Failed(ended, &pgconn.PgError{Code: "57014"}, "append"); !errors.Is(failed, context.Canceled) {
		t.Errorf("of a call that was given up: %v", failed)
	}
}
