package postgres_test

import (
	"testing"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestMain(m *testing.M) {
	pgtest.AtOnce(6)
	m.Run()
}
