package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/cmd/internal/measure"
)

// serve runs one of the servers until its standard input ends, which is when
// the process that measures is gone.
func serve(args []string) error {
	if len(args) != 1 {
		return errors.New("serve takes node or floor")
	}
	switch args[0] {
	case "node":
		return measure.ServeNode("fanout")
	case "floor":
		return serveFloor()
	default:
		return fmt.Errorf("no such server: %s", args[0])
	}
}

// serveFloor speaks just enough of the API: one goroutine a reader, an event
// encoded once and handed over a channel.
func serveFloor() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	var hub floorHub
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/streams/{id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/streams/{id}/append", hub.append)
	mux.HandleFunc("GET /v1/streams/{id}", hub.read)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	fmt.Println("http://" + listener.Addr().String())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// floorHub hands each event to all readers. A reader whose queue is full misses
// it: a floor keeps no promises.
type floorHub struct {
	mu      sync.Mutex
	readers map[chan []byte]struct{}
}

func (h *floorHub) append(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	event := fmt.Appendf(nil, "id: 1\ndata: {\"type\":\"chunk\",\"from\":0,\"seq\":1,\"text\":%q}\n\n", body)
	h.mu.Lock()
	defer h.mu.Unlock()
	for queue := range h.readers {
		select {
		case queue <- event:
		default:
		}
	}
}

func (h *floorHub) read(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	_ = control.Flush()
	queue := make(chan []byte, 1024)
	h.mu.Lock()
	if h.readers == nil {
		h.readers = map[chan []byte]struct{}{}
	}
	h.readers[queue] = struct{}{}
	h.mu.Unlock()
	defer func() { h.mu.Lock(); delete(h.readers, queue); h.mu.Unlock() }()
	for {
		select {
		case event := <-queue:
			_, _ = w.Write(event)
			for len(queue) > 0 {
				_, _ = w.Write(<-queue)
			}
			if control.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
