package faulttest_test

import (
	"testing"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestMain(m *testing.M) {
	pgtest.AtOnce(4)
	m.Run()
}
