package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"rillkeep.dev/rillkeep/cmd/internal/proctest"
	"rillkeep.dev/rillkeep/router/wire"
)

func TestNodesOfDevAreTheirOwnClusterWhateverTheEnvironmentSays(t *testing.T) {
	d := devCmd{Data: "data", Database: "postgres://user:hush@127.0.0.1/app"}
	env := d.environment([]string{
		"PATH=/bin", "RILLKEEP_KEYS=k", "RILLKEEP_JOIN=10.0.0.1:7946", "RILLKEEP_JOIN_DNS=nodes.example", "RILLKEEP_ADVERTISE=10.0.0.2",
		"RILLKEEP_CLUSTER_SECRET=another", "RILLKEEP_CLUSTER_NAME=prod", "RILLKEEP_FORWARDING=fly-replay", "RILLKEEP_DATABASE=x",
	}, "secret")
	want := []string{"PATH=/bin", "RILLKEEP_KEYS=k", "RILLKEEP_CLUSTER_SECRET=secret", "RILLKEEP_DATABASE=postgres://user:hush@127.0.0.1/app"}
	if !slices.Equal(env, want) {
		t.Errorf("environment is %q", env)
	}
	if args := strings.Join(d.arguments(false), " "); strings.Contains(args, "hush") || strings.Contains(args, "postgres") {
		t.Errorf("arguments are %s", args)
	}
}

func TestNodesOfDevAreToldOfOneStore(t *testing.T) {
	for database, folder := range map[string]bool{"": true, "postgres://127.0.0.1/app": false} {
		args := devCmd{Data: "data", Database: database}.arguments(false)
		if slices.Contains(args, "--data") != folder {
			t.Errorf("with database %q: %q", database, args)
		}
	}
}

func TestDevIsForThisMachineAlone(t *testing.T) {
	got := command(t.Context(), nil, "dev", "--listen", "0.0.0.0:0")
	if got.code != exitFailure || !strings.Contains(got.err, "0.0.0.0:0 is not on loopback") {
		t.Errorf("%+v", got)
	}
}

// supervise starts a node as rillkeep dev does.
func supervise(t *testing.T, args ...string) (p *proctest.Process, url string) {
	t.Helper()
	p = launch(t, append([]string{"serve", "--supervised", "--listen", "127.0.0.1:0"}, args...)...)
	p.Printed(t, "}\n")
	return p, decoded[struct{ URL string }](t, p.Out.String()).URL
}

func TestASupervisedNodeDrainsWhenItsInputEnds(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p, url := supervise(t, "--data", data)
	post(t, url+"/v1/streams/m1", ``)
	post(t, url+"/v1/streams/m1/append", `{"text":"text"}`)
	if err := p.In.Close(); err != nil {
		t.Fatal(err)
	}
	if code := p.Ended(t); code != 0 || strings.Count(p.Out.String(), "\n") != 1 {
		t.Errorf("exit %d, printed %q", code, p.Out)
	}
	_, url = serve(t, "--data", data)
	if snap := decoded[wire.Snapshot](t, at(t, url, nil, "show", "--json", "m1").out); snap.Text != "text" || snap.Status != "interrupted" {
		t.Errorf("it left %+v", snap)
	}
}

func TestADrainDoesNotOutliveItsSupervisor(t *testing.T) {
	t.Parallel()
	p := stuckBy(t, supervise, "--drain", "10m")
	p.Signal(t, syscall.SIGTERM)
	p.Said(t, `"draining"`)
	if err := p.In.Close(); err != nil {
		t.Fatal(err)
	}
	if code := p.Ended(t); code != exitSignal {
		t.Errorf("exit %d", code)
	}
}
