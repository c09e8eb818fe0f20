package faulttest_test

import (
	"testing"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, 6) }
