package main

import (
	"strings"
	"testing"
)

func TestAnUpstreamThatCanNotBeIsRefused(t *testing.T) {
	t.Setenv("RILLKEEP_UPSTREAM_A_KEY", "SECRET KEY")
	for given, why := range map[string]string{
		"a":                            "name=format:baseURL",
		"a=text:http://127.0.0.1":      "openai-responses",
		"a=openai:127.0.0.1":           "http or https",
		"a=openai:http://127.0.0.1:80": "its key",
	} {
		got := command(t.Context(), nil, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--upstream", given)
		if got.code == 0 || !strings.Contains(got.err, why) || strings.Contains(got.err, "SECRET") {
			t.Errorf("%s: %+v", given, got)
		}
	}
	twice := command(t.Context(), nil, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--upstream", "openai,openai")
	if twice.code == 0 || !strings.Contains(twice.err, "two upstreams") {
		t.Errorf("%+v", twice)
	}
}
