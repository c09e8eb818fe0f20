package generate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/generate"
	"rillkeep.dev/rillkeep/router/upstream"
)

func TestUpstreamsAreParsed(t *testing.T) {
	env := map[string]string{
		"RILLKEEP_UPSTREAM_MY_MODEL_KEY": "k1", "RILLKEEP_UPSTREAM_ANTHROPIC_KEY": "k2",
		"ANTHROPIC_API_KEY": "k3", "OPENAI_API_KEY": "k4",
	}
	getenv := func(name string) string { return env[name] }
	for given, want := range map[string]generate.Upstream{
		"my-model=openai:https://h.example/v1":             {Name: "my-model", Format: upstream.OpenAI, URL: "https://h.example/v1", Key: "k1"},
		"r=openai-responses:http://127.0.0.1:8000":         {Name: "r", Format: upstream.Responses, URL: "http://127.0.0.1:8000"},
		"c=anthropic:https://h.example":                    {Name: "c", Format: upstream.Anthropic, URL: "https://h.example"},
		"openai":                                           {Name: "openai", Format: upstream.OpenAI, URL: "https://api.openai.com/v1", Key: "k4"},
		"anthropic":                                        {Name: "anthropic", Format: upstream.Anthropic, URL: "https://api.anthropic.com/v1", Key: "k2"},
		"openai=openai:https://somebody-else.example/path": {Name: "openai", Format: upstream.OpenAI, URL: "https://somebody-else.example/path"},
	} {
		got, err := generate.ParseUpstream(given, getenv)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", given, got, err)
		}
		if string(got.Key) != string(want.Key) {
			t.Errorf("%s: the key is another", given)
		}
	}
	env["RILLKEEP_UPSTREAM_A_KEY"] = "SECRET with\nblanks"
	for _, given := range []string{
		"", "a", "a=openai", "a=text:https://h.example", "A=openai:https://h.example", "a_b=openai:https://h.example", "-a=openai:https://h.example",
		"b=openai:h.example", "b=openai:ftp://h.example", "b=openai:https://", "b=openai:https://user:SECRET@h.example", "b=openai:https://h.example?key=SECRET",
		"b=openai:https://h.example#SECRET", "a=openai:https://h.example", strings.Repeat("b", 65) + "=openai:https://h.example",
	} {
		if got, err := generate.ParseUpstream(given, getenv); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: %+v, %v", given, got, err)
		}
	}
}

func TestAKeyIsNotPrinted(t *testing.T) {
	u := generate.Upstream{Name: "m", Format: upstream.OpenAI, URL: "https://h.example", Key: "SECRET"}
	asJSON, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	if said := fmt.Sprintf("%v %+v %#v %s %q %s", u, u, u, u.Key, u.Key, asJSON); strings.Contains(said, "SECRET") {
		t.Error(said)
	}
}

func TestConfigsThatCanNotBeAreRefused(t *testing.T) {
	good := generate.Upstream{Name: "m", Format: upstream.OpenAI, URL: "https://h.example"}
	for name, cfg := range map[string]generate.Config{
		"two of a name":  {Upstreams: []generate.Upstream{good, good}},
		"no URL":         {Upstreams: []generate.Upstream{{Name: "m", Format: upstream.OpenAI}}},
		"negative time":  {FirstByte: -1},
		"negative bound": {MaxResponse: -1},
	} {
		if err := cfg.Validate(); !errors.Is(err, plane.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := generate.New(cfg); !errors.Is(err, plane.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	got := []time.Duration{generate.DefaultFirstByte, generate.DefaultBetween, generate.DefaultWhole, generate.DefaultLength, generate.DefaultPatience}
	if diff := cmp.Diff([]time.Duration{time.Minute, time.Minute, 10 * time.Minute, time.Hour, 30 * time.Second}, got); diff != "" {
		t.Errorf("defaults, as README has them (-want +got):\n%s", diff)
	}
}
