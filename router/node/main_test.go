package node_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A node that is closed leaves no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
