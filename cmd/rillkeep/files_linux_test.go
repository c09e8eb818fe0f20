package main

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// With 256 descriptors and twice as many readers a node keeps some for itself: it goes
// on checkpointing, and takes readers again when there is room.
func TestServeLivesWithFewFileDescriptors(t *testing.T) {
	t.Parallel()
	p := shell(t, "ulimit -n 256; exec rillkeep serve --listen 127.0.0.1:0")
	p.Printed(t, "in a browser.")
	url := address.FindStringSubmatch(p.Out.String())[1]
	post(t, url+"/v1/streams/m1", ``)
	served, refused := 0, 0
	var readers []*http.Response
	transport := &http.Transport{DisableKeepAlives: true}
	calls := &http.Client{Transport: transport, Timeout: time.Minute}
	for range 500 {
		resp, err := calls.Get(url + "/v1/streams/m1")
		switch {
		case err != nil:
			refused++
		case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
			_ = resp.Body.Close()
			refused++
		case resp.StatusCode == http.StatusOK:
			readers = append(readers, resp)
			served++
		default:
			t.Fatalf("status %s", resp.Status)
		}
	}
	if served < 50 || served > 160 || served+refused != 500 {
		t.Errorf("%d were served, %d refused", served, refused)
	}
	for _, resp := range readers[:20] {
		_ = resp.Body.Close()
	}
	readers = readers[20:]
	deadline := time.Now().Add(30 * time.Second)
	for {
		resp, err := calls.Post(url+"/v1/streams/m1/append?from=0", "text/plain", strings.NewReader("text"))
		if err == nil {
			_ = resp.Body.Close()
		}
		if err == nil && resp.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("append: %v", err)
		}
	}
	resp, err := calls.Post(url+"/v1/streams/m1/flush", "", nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("flush: %v", err)
	}
	_ = resp.Body.Close()
	for _, resp := range readers {
		_ = resp.Body.Close()
	}
	if said := p.Err.String(); strings.Contains(said, "too many open files") {
		t.Errorf("it ran out of them: %s", said)
	}
}
