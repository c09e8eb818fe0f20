package generate_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/generate"
	"rillkeep.dev/rillkeep/router/generate/modeltest"
	"rillkeep.dev/rillkeep/router/upstream"
)

const key = "sk-SECRETKEY-0123456789"

// patience bounds what a test waits for.
const patience = time.Minute

// model is a client of one provider, called m.
func model(t testing.TB, p *modeltest.Provider, format upstream.Format, cfg generate.Config) (*generate.Client, *bytes.Buffer) {
	t.Helper()
	logged := new(bytes.Buffer)
	cfg.Upstreams = []generate.Upstream{{Name: "m", Format: format, URL: p.URL + "/v1", Key: key}}
	cfg.Logger = slog.New(slog.NewTextHandler(logged, nil))
	c, err := generate.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, logged
}

type outcome struct {
	deltas []string
	err    error
	res    generate.Result
}

func (o outcome) text() string { return strings.Join(o.deltas, "") }

// call makes a job's call, of {"messages":[]} unless it is given.
func call(ctx context.Context, c *generate.Client, job generate.Job) (o outcome) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for delta, err := range c.Deltas(ctx, job, &o.res) {
		if err != nil {
			o.err = err
			continue
		}
		o.deltas = append(o.deltas, delta)
	}
	return o
}

func ask(t testing.TB, c *generate.Client) outcome {
	t.Helper()
	return call(t.Context(), c, job(t, c, `{"messages":[]}`))
}

func job(t testing.TB, c *generate.Client, request string) generate.Job {
	t.Helper()
	j, err := c.Job("m", []byte(request))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// sample is a recorded response.
func sample(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("../upstream/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(name, ".gz") {
		return data
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(zip); err != nil {
		t.Fatal(err)
	}
	return data
}

// refusal is an answer that is no response.
func refusal(status int, body string, header ...string) modeltest.Answer {
	a := modeltest.Answer{Status: status, Body: []byte(body), Header: map[string]string{"Content-Type": "application/json"}}
	for i := 0; i < len(header); i += 2 {
		a.Header[header[i]] = header[i+1]
	}
	return a
}

func isReported(err error) bool {
	_, ok := errors.AsType[*upstream.Error](err)
	return ok
}

// copied is a generate.Copy that keeps it all.
type copied struct {
	heads []http.Header
	bytes.Buffer
}

func (c *copied) Head(h http.Header) { c.heads = append(c.heads, h) }
func (c *copied) Add(p []byte)       { c.Write(p) }
