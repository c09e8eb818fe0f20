package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"rillkeep.dev/rillkeep/router/client"
)

// What arrives while a flush is under way is in its answer, and not durable (H).
func TestAFlushThatMoreTextHasOvertakenIsAskedForAgain(t *testing.T) {
	t.Parallel()
	var flushes atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(req.URL.Path, "/flush"):
			fmt.Fprintf(w, `{"seq":4,"durableSeq":%d}`, min(4, 2*flushes.Add(1)))
		case strings.HasSuffix(req.URL.Path, "/pump"):
			_ = http.NewResponseController(w).EnableFullDuplex()
			_, _ = io.WriteString(w, `{"seq":0,"durableSeq":0}`+"\n")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.Copy(io.Discard, req.Body)
		default:
			_, _ = io.WriteString(w, `{"streamId":"m","epoch":1,"producerEpoch":"1.1","status":"streaming"}`)
		}
	}))
	defer srv.Close()
	ctx, cancel := context.WithCancel(within(t, patience))
	defer cancel()
	p, err := connect(t, client.Config{Server: srv.URL}).Produce(ctx, "m", client.Producing{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Push(ctx, "text"); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(ctx); err != nil || p.Acked().DurableSeq != 4 {
		t.Errorf("flushed by %+v, %v", p.Acked(), err)
	}
}
