package pgtest_test

import (
	"testing"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestEveryTestHasADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	one, other := pgtest.URL(t), pgtest.URL(t)
	pgtest.Exec(t, one, "CREATE TABLE only_here ()")
	pgtest.Exec(t, other, "CREATE TABLE only_here ()")
}
