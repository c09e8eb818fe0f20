package router

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestAPanicInAGenerationCostsItsStreamAlone(t *testing.T) {
	var log bytes.Buffer
	r := &Router{log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := r.contained(t.Context(), "m1", func() error { panic("SECRET of the response") }); !errors.Is(err, errBroken) || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("%v", err)
	}
	if said := log.String(); !strings.Contains(said, "streamId=m1") || !strings.Contains(said, "generation_test.go") {
		t.Errorf("log: %s", said)
	}
	failed := errors.New("failed")
	if err := r.contained(t.Context(), "m1", func() error { return failed }); err != failed {
		t.Errorf("%v", err)
	}
}
