package node_test

import (
	"testing"

	"github.com/openai/openai-go/v3"
)

func TestX(t *testing.T) { _ = openai.NewClient() }
