package auth_test

import (
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/router/auth"
)

func TestWithoutKeysOnlyLoopbackIsListenedOn(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:8080":          true,
		"127.8.9.10:0":            true,
		"[::1]:8080":              true,
		"[::ffff:127.0.0.1]:8080": true,
		"localhost:8080":          true,
		"LocalHost:8080":          true,
		":8080":                   false,
		"0.0.0.0:8080":            false,
		"[::]:8080":               false,
		"[::ffff:0.0.0.0]:8080":   false,
		"10.0.0.5:8080":           false,
		"128.0.0.1:8080":          false,
		"[fe80::1%lo]:8080":       false,
		"example.org:8080":        false,
		"localhost.example:8080":  false,
		"127.0.0.1.example:8080":  false,
		"0127.0.0.1:8080":         false,
		"127.1:8080":              false,
		"127.0.0.1":               false,
		"":                        false,
	} {
		err := auth.CheckListen(addr, false)
		if (err == nil) != want {
			t.Errorf("%q: got %v, want allowed: %v", addr, err, want)
		}
		if err := auth.CheckListen(addr, true); err != nil {
			t.Errorf("%q with keys: %v", addr, err)
		}
	}
}

func TestRefusalToListenSaysWhyAndWhatToDo(t *testing.T) {
	err := auth.CheckListen(":8080", false)
	if err == nil {
		t.Fatal("not refused")
	}
	for _, want := range []string{`":8080"`, "without keys", "configure keys", "127.0.0.1:8080"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

func TestLocalHosts(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:80": true, "127.0.0.1": true, "127.0.0.1:8080": true,
		"[::1]": true, "[::1]:8080": true, "::1": true,
		"": false, "evil.example": false, "evil.example:8080": false, "127.0.0.1.evil.example": false, "0.0.0.0": false,
	} {
		if got := auth.LocalHost(host); got != want {
			t.Errorf("%q: got %v, want %v", host, got, want)
		}
	}
}
