package dev_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/cmd/rillkeep/internal/dev"
)

// follow begins to read events, and returns the node that sends them.
func (c *cluster) follow() (events *bufio.Reader, from string) {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, c.url("/events"), nil)
	if err != nil {
		c.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = resp.Body.Close() })
	return bufio.NewReader(resp.Body), resp.Header.Get(dev.NodeHeader)
}

// within fails the test if f takes long.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: nothing for %v", what, patience)
	}
}

func TestTheFrontLeadsToEachNodeInTurn(t *testing.T) {
	t.Parallel()
	c := open(t, 3, "")
	seen := map[string]bool{}
	for range 3 {
		_, said := c.ask(http.MethodGet, "/name")
		name, host, _ := strings.Cut(said, " as ")
		seen[name] = true
		if host != c.Addr().String() {
			t.Errorf("the node is asked as %s", host)
		}
	}
	if len(seen) != 3 {
		t.Errorf("it led to %v", seen)
	}
}

func TestTheFrontKeepsPathsAndQueriesAsTheyAre(t *testing.T) {
	t.Parallel()
	c := open(t, 1, "")
	for _, target := range []string{"/v1/streams/%2E%2E", "/v1/streams/a%2Fb/c", "/v1/streams/m1?from=3;x&y=%zz", "/v1/streams//x"} {
		path, query, _ := strings.Cut(target, "?")
		if status, said := c.ask(http.MethodGet, target); status != http.StatusOK || said != "GET "+path+" "+query {
			t.Errorf("%s came as %d, %q", target, status, said)
		}
	}
}

func TestEventsPassAtOnce(t *testing.T) {
	t.Parallel()
	c := open(t, 1, "")
	within(t, "the first event", func() {
		events, _ := c.follow() // which the node goes on with until we leave
		if line, err := events.ReadString('\n'); err != nil || line != "data: first\n" {
			t.Errorf("%q, %v", line, err)
		}
	})
}

func TestALongRequestIsAnsweredWhileItIsSent(t *testing.T) {
	t.Parallel()
	c := open(t, 1, "")
	body, to := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url("/echo"), body)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "an exchange", func() {
		go func() { _, _ = io.WriteString(to, "first\n") }()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		for _, next := range []string{"second\n", "third\n", ""} {
			if line, err := lines.ReadString('\n'); err != nil {
				t.Errorf("%q, %v", line, err)
			}
			_, _ = io.WriteString(to, next)
		}
		_ = to.Close()
		if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

func TestAnAnswerEndsThoughItsRequestGoesOn(t *testing.T) {
	t.Parallel()
	c := open(t, 1, "")
	body, to := io.Pipe()
	defer to.Close()
	go func() { _, _ = io.WriteString(to, "and silence") }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url("/last"), body)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "the answer", func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if all, err := io.ReadAll(resp.Body); err != nil || string(all) != "no more\n" {
			t.Errorf("%q, %v", all, err)
		}
	})
}

func TestNodesThatAreNotUpAreLeftOut(t *testing.T) {
	t.Parallel()
	c := open(t, 3, "")
	c.do("dev-1", "kill") // and may not be known to be gone yet
	c.do("dev-2", "pause")
	for range 9 {
		if _, said := c.ask(http.MethodGet, "/name"); !strings.HasPrefix(said, "dev-3 ") {
			t.Errorf("it led to %q", said)
		}
	}
	c.do("dev-3", "kill")
	c.until("dev-3", dev.Down)
	status, said := c.ask(http.MethodPost, "/v1/streams/m1")
	if status != http.StatusServiceUnavailable || !strings.Contains(said, `"code":"unavailable"`) {
		t.Errorf("with nobody there: %d, %s", status, said)
	}
	if status, said := c.ask(http.MethodGet, "/"); status != http.StatusOK || !strings.Contains(said, "<html") {
		t.Errorf("the page: %d, %.80s", status, said)
	}
	if status, _ := c.ask(http.MethodGet, "/web/app.js"); status != http.StatusOK {
		t.Errorf("its script: %d", status)
	}
}

func TestAReaderIsCutWithItsNodeAndComesBackToAnother(t *testing.T) {
	t.Parallel()
	c := open(t, 3, "")
	for _, action := range []string{"kill", "pause"} {
		events, from := c.follow()
		if _, err := events.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		c.do(from, action)
		within(t, action, func() {
			if rest, err := io.ReadAll(events); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s of its node: %q, %v", action, rest, err)
			}
		})
		if _, again := c.follow(); again == from {
			t.Errorf("after %s of %s it is led to %s", action, from, again)
		}
	}
}

func TestWhatAPausedNodeHasNotAnsweredIsAskedOfAnotherIfItMay(t *testing.T) {
	t.Parallel()
	c := open(t, 1, "")
	for method, answered := range map[string]bool{http.MethodGet: true, http.MethodPost: false} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, method, c.url("/silent"), nil)
		if err != nil {
			t.Fatal(err)
		}
		result := make(chan error, 1)
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusServiceUnavailable {
					err = errors.New(resp.Status)
				}
			}
			result <- err
		}()
		c.said(method + " is here")
		c.do("dev-1", "pause")
		select {
		case err := <-result:
			if (err == nil) != answered {
				t.Errorf("%s: %v", method, err)
			}
		case <-time.After(patience):
			t.Errorf("%s: no answer", method)
		}
		c.do("dev-1", "resume")
		cancel()
	}
}
