package node_test

import (
	"testing"

	"go.uber.org/goleak"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// A node that is closed leaves no goroutine behind.
func TestMain(m *testing.M) {
	pgtest.AtOnce(4)
	goleak.VerifyTestMain(m)
}
