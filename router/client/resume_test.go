package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
)

// server answers a producer's requests without a network: time in its tests is virtual.
type server func(req *http.Request) (status int, body string)

func (n server) RoundTrip(req *http.Request) (*http.Response, error) {
	status, body := n(req)
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

func (n server) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Server: "http://node", HTTP: &http.Client{Transport: n}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	openedAnew = `{"seq":0,"durableSeq":0,"epoch":1,"producerEpoch":"1.1","status":"streaming"}`
	refused    = `{"error":{"code":"unavailable","message":"not now"}}`
)

// TestAProducerThatIsResumedInVainWaits: a node, or what is before it, may take a
// resume each time, and never a pump.
func TestAProducerThatIsResumedInVainWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pumps := 0
		c := server(func(req *http.Request) (int, string) {
			if strings.HasSuffix(req.URL.Path, "/pump") {
				pumps++
				return http.StatusServiceUnavailable, refused
			}
			return http.StatusOK, openedAnew
		}).client(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		p, err := c.Produce(ctx, "m", client.Producing{})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		synctest.Wait()
		if pumps < 10 || pumps > 60 {
			t.Errorf("%d pumps in 20 s", pumps)
		}
	})
}

// TestAnOpenThatMayBeDoneIsResumed: refused, it would be refused for what it did itself.
func TestAnOpenThatMayBeDoneIsResumed(t *testing.T) {
	for code, want := range map[string]bool{"no_answer": true, "": true, "unavailable": false, "draining": false} {
		synctest.Test(t, func(t *testing.T) {
			var asked []string
			c := server(func(req *http.Request) (int, string) {
				if strings.HasSuffix(req.URL.Path, "/pump") {
					return http.StatusConflict, `{"error":{"code":"cancelled"}}`
				}
				body, err := io.ReadAll(req.Body)
				if err != nil {
					t.Error(err)
				}
				asked = append(asked, string(body))
				switch {
				case len(asked) > 1:
					return http.StatusOK, openedAnew
				case code == "":
					return http.StatusBadGateway, "<html>"
				default:
					return http.StatusServiceUnavailable, `{"error":{"code":"` + code + `"}}`
				}
			}).client(t)
			p, err := c.Produce(t.Context(), "m", client.Producing{})
			if err != nil {
				t.Fatal(err)
			}
			<-p.Done()
			if len(asked) != 2 || strings.Contains(asked[1], `"resume":true`) != want {
				t.Errorf("after %q: %q", code, asked)
			}
		})
	}
}

func TestACallThatMayBeDoneIsUnavailable(t *testing.T) {
	err := wire.Decode(http.StatusServiceUnavailable, []byte(`{"error":{"code":"no_answer"}}`))
	if !errors.Is(err, wire.ErrNoAnswer) || !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestAProducerIsClosedOnce(t *testing.T) {
	t.Parallel()
	c := start(t)
	ctx := within(t, patience)
	p := produce(t, c, "m", client.Producing{})
	if _, err := p.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if sealed, err := p.Close(ctx); err != nil || sealed.Status != plane.StatusComplete || sealed.Seq != 4 {
			t.Errorf("%+v, %v", sealed, err)
		}
	}
	if sealed, err := p.Interrupt(ctx); err != nil || sealed.Status != plane.StatusComplete {
		t.Errorf("the first end does not count: %+v, %v", sealed, err)
	}
	if err := p.Flush(ctx); err != nil {
		t.Errorf("flush of what is durable: %v", err)
	}
	if p.Push(ctx, "late") == nil {
		t.Error("text was taken that nobody sends")
	}
}

func TestClosingAProducerEndsAWriteThatWaits(t *testing.T) {
	t.Parallel()
	c := server(func(req *http.Request) (int, string) {
		if strings.HasSuffix(req.URL.Path, "/pump") {
			<-req.Context().Done()
			return http.StatusServiceUnavailable, refused
		}
		return http.StatusOK, openedAnew
	}).client(t)
	p, err := c.Produce(within(t, patience), "m", client.Producing{Backlog: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := p.Write([]byte("more"))
		written <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	if err := <-written; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("write: %v", err)
	}
}
