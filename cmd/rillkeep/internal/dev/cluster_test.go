package dev_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/cmd/internal/proctest"
	"rillkeep.dev/rillkeep/cmd/rillkeep/internal/dev"
)

// cluster is one under test.
type cluster struct {
	*dev.Cluster
	testing.TB
	log *proctest.Output
}

func open(t *testing.T, nodes int, odd string) *cluster {
	t.Helper()
	log := proctest.NewOutput()
	c, err := dev.Open(t.Context(), dev.Config{Nodes: nodes, Listen: "127.0.0.1:0", Command: command(odd), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Drain(context.Background()) // the cases look at that themselves
		if t.Failed() {
			t.Logf("nodes said\n%s", log)
		}
	})
	return &cluster{c, t, log}
}

func (c *cluster) url(path string) string { return "http://" + c.Addr().String() + path }

// ask makes a request and returns the whole answer.
func (c *cluster) ask(method, path string) (status int, body string) {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, c.url(path), nil)
	if err != nil {
		c.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

// do has something done to a node, and returns what it is then.
func (c *cluster) do(name, action string) (n dev.Node) {
	c.Helper()
	status, said := c.ask(http.MethodPost, "/dev/nodes/"+name+"/"+action)
	if status != http.StatusAccepted {
		c.Fatalf("%s of %s: %d, %s", action, name, status, said)
	}
	if err := json.Unmarshal([]byte(said), &n); err != nil {
		c.Fatal(err)
	}
	return n
}

// node returns a node, by the API.
func (c *cluster) node(name string) dev.Node {
	c.Helper()
	_, said := c.ask(http.MethodGet, "/dev/nodes")
	var list struct{ Nodes []dev.Node }
	if err := json.Unmarshal([]byte(said), &list); err != nil {
		c.Fatal(err)
	}
	for _, n := range list.Nodes {
		if n.Name == name {
			return n
		}
	}
	c.Fatalf("%s is not in %s", name, said)
	return dev.Node{}
}

// until waits for a state.
func (c *cluster) until(name string, want dev.State) dev.Node {
	c.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		n := c.node(name)
		if n.State == want {
			return n
		}
		if time.Now().After(deadline) {
			c.Fatalf("%s is %s, want %s", name, n.State, want)
		}
	}
}

// said waits until the nodes have said something.
func (c *cluster) said(what string) {
	c.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !strings.Contains(c.log.String(), what); <-tick.C {
		if time.Now().After(deadline) {
			c.Fatalf("nodes do not say %q", what)
		}
	}
}

func TestNodesComeUpAndEndWithTheCluster(t *testing.T) {
	t.Parallel()
	c := open(t, 3, "")
	for i, n := range c.Nodes() {
		if want := "dev-" + string(rune('1'+i)); n.Name != want || n.State != dev.Up || n.PID == 0 || n.URL == "" {
			t.Errorf("%s is %+v", want, n)
		}
	}
	nodes := c.Nodes()
	if err := c.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	for _, n := range nodes {
		gone(t, n.URL)
	}
	for _, line := range []string{"dev-1 | a line before the address\n", "dev-2 | a line after it\n", "dev-3 | draining\n"} {
		c.said(line)
	}
	if strings.Contains(c.log.String(), `{"url"`) {
		t.Errorf("the address is in the log:\n%s", c.log)
	}
}

// gone waits until nobody listens at a URL any more.
func gone(t *testing.T, at string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			return
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatalf("%s still listens", at)
		}
	}
}

func TestANodeThatCrashesStaysDownUntilItIsStarted(t *testing.T) {
	t.Parallel()
	c := open(t, 1, "")
	before := c.node("dev-1")
	if resp, err := http.Post(c.url("/crash"), "", nil); err == nil {
		_ = resp.Body.Close()
		t.Errorf("it answered %s", resp.Status)
	}
	if n := c.until("dev-1", dev.Down); n.Why != "exit status 5" || n.PID != 0 {
		t.Errorf("it is %+v", n)
	}
	c.do("dev-1", "restart")
	if n := c.until("dev-1", dev.Up); n.PID == before.PID || n.Why != "" {
		t.Errorf("it is %+v, and was %+v", n, before)
	}
	if err := c.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNodesAreKilledStoppedPausedAndStartedAgain(t *testing.T) {
	t.Parallel()
	c := open(t, 2, "")
	if n := c.do("dev-1", "kill"); n.State != dev.Down || n.PID != 0 || n.Why != "signal: killed" {
		t.Errorf("killed, it is %+v", n)
	}
	c.do("dev-1", "restart")
	c.until("dev-1", dev.Up)
	if n := c.do("dev-1", "stop"); n.State == dev.Up {
		t.Errorf("asked to stop, it is %+v", n)
	}
	if n := c.until("dev-1", dev.Down); n.Why != "exit status 0" {
		t.Errorf("stopped, it is %+v", n)
	}

	before := c.node("dev-2")
	c.do("dev-2", "restart")
	for now := before; now.PID == before.PID || now.State != dev.Up; now = c.node("dev-2") {
		if now.State == dev.Down {
			t.Fatalf("restarted, it is %+v", now)
		}
	}
	c.do("dev-2", "pause")
	if n := c.node("dev-2"); n.State != dev.Paused {
		t.Errorf("paused, it is %+v", n)
	}
	c.do("dev-2", "resume")
	if _, said := c.ask(http.MethodGet, "/name"); !strings.HasPrefix(said, "dev-2 ") {
		t.Errorf("resumed, it says %q", said)
	}
	c.do("dev-2", "pause")
	c.do("dev-2", "stop") // which it notices as it goes on
	if n := c.until("dev-2", dev.Down); n.Why != "exit status 0" {
		t.Errorf("paused and stopped, it is %+v", n)
	}
}

func TestWhatANodeCantDoIsRefused(t *testing.T) {
	t.Parallel()
	c := open(t, 1, "")
	for _, tt := range []struct {
		method, path, code string
		status             int
	}{
		{http.MethodPost, "/dev/nodes/dev-2/kill", "no_route", http.StatusNotFound},
		{http.MethodPost, "/dev/nodes/dev-1/hug", "no_route", http.StatusNotFound},
		{http.MethodGet, "/dev/none", "no_route", http.StatusNotFound},
		{http.MethodPost, "/dev/nodes/dev-1/resume", "state", http.StatusConflict},
	} {
		if status, said := c.ask(tt.method, tt.path); status != tt.status || !strings.Contains(said, `"code":"`+tt.code+`"`) {
			t.Errorf("%s %s: %d, %s", tt.method, tt.path, status, said)
		}
	}
	c.do("dev-1", "kill")
	c.until("dev-1", dev.Down)
	for _, action := range []string{"kill", "stop", "pause", "resume"} {
		if status, said := c.ask(http.MethodPost, "/dev/nodes/dev-1/"+action); status != http.StatusConflict {
			t.Errorf("%s of one that is down: %d, %s", action, status, said)
		}
	}
}

func TestPagesOfOtherSitesMayDoNothing(t *testing.T) {
	t.Parallel()
	c := open(t, 1, "")
	for name, change := range map[string]func(*http.Request){
		"a foreign origin":       func(r *http.Request) { r.Header.Set("Origin", "https://elsewhere.example") },
		"a page that fetches":    func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a sibling's page":       func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"a name that leads here": func(r *http.Request) { r.Host = "elsewhere.example" },
	} {
		for _, action := range []string{"kill", "stop", "restart", "pause", "resume"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url("/dev/nodes/dev-1/"+action), nil)
			if err != nil {
				t.Fatal(err)
			}
			change(req)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s: %s answers %s", name, action, resp.Status)
			}
		}
	}
	if n := c.node("dev-1"); n.State != dev.Up {
		t.Errorf("the node is %+v", n)
	}
}

func TestAClusterIsForThisMachineAlone(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "nonsense"} {
		if _, err := dev.Open(t.Context(), dev.Config{Nodes: 1, Listen: listen, Command: command(""), Log: t.Output()}); err == nil {
			t.Errorf("it listens on %s", listen)
		}
	}
}

func TestNodesThatAllFailToStartAreAFailure(t *testing.T) {
	t.Parallel()
	log := proctest.NewOutput()
	_, err := dev.Open(t.Context(), dev.Config{Nodes: 2, Listen: "127.0.0.1:0", Command: command("broken"), Log: log})
	if !errors.Is(err, dev.ErrNoNode) || !strings.Contains(err.Error(), "dev-2: exit status 3") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(log.String(), "dev-1 | can't start\n") {
		t.Errorf("log has %q", log)
	}
	missing := func(string) *exec.Cmd { return exec.Command("/nowhere/at/all") }
	_, err = dev.Open(t.Context(), dev.Config{Nodes: 1, Listen: "127.0.0.1:0", Command: missing, Log: log})
	if !errors.Is(err, dev.ErrNoNode) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestADrainSaysWhichNodesDidNotEndWell(t *testing.T) {
	t.Parallel()
	c := open(t, 2, "unwell")
	if err := c.Drain(t.Context()); err == nil || !strings.Contains(err.Error(), "dev-2: exit status 4") {
		t.Errorf("%v", err)
	}
	c = open(t, 1, "stubborn")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := c.Drain(ctx); err == nil || !strings.Contains(err.Error(), "dev-1: signal: killed") {
		t.Errorf("%v", err)
	}
}

func TestNodesEndWithWhoStartedThemEvenIfThatIsKilled(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), role+"="+supervisor)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
		urls = append(urls, lines.Text())
	}
	if len(urls) != 3 {
		t.Errorf("nodes are at %q", urls)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
	for _, url := range urls {
		gone(t, url)
	}
}
