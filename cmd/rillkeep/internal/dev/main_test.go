package dev_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rillkeep.dev/rillkeep/cmd/rillkeep/internal/dev"
)

// role says, in the environment, that this binary is to be a node called so, or
// who starts nodes.
const (
	role       = "RILLKEEP_TEST_ROLE"
	supervisor = "supervisor"
	how        = "RILLKEEP_TEST_HOW" // what is odd about the node
)

func TestMain(m *testing.M) {
	switch name := os.Getenv(role); name {
	case "":
		goleak.VerifyTestMain(m)
	case supervisor:
		supervise()
	default:
		os.Exit(stand(name))
	}
}

// supervise runs three nodes, of which one is paused, until it is killed.
func supervise() {
	c, err := dev.Open(context.Background(), dev.Config{Nodes: 3, Listen: "127.0.0.1:0", Command: command(""), Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, n := range c.Nodes() {
		fmt.Println(n.URL)
	}
	resp, err := http.Post("http://"+c.Addr().String()+"/dev/nodes/dev-2/pause", "", nil)
	if err != nil || resp.StatusCode != http.StatusAccepted {
		fmt.Fprintln(os.Stderr, resp, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

// command makes nodes of this binary, odd ones if it says how.
func command(odd string) func(string) *exec.Cmd {
	return func(name string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), role+"="+name, how+"="+odd)
		return cmd
	}
}

// stand is a stand-in for a node, and returns its exit code.
func stand(name string) int {
	odd := os.Getenv(how)
	if odd == "broken" {
		fmt.Fprintln(os.Stderr, "can't start")
		return 3
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	lifeline := dev.Lifeline(os.Stdin)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server := &http.Server{Handler: handler(name)}
	if odd == "pages" {
		server.Handler = pages(name)
	}
	go func() { _ = server.Serve(listener) }()
	fmt.Println("a line before the address")
	if err := dev.Announce(os.Stdout, "http://"+listener.Addr().String()); err != nil {
		return 1
	}
	fmt.Println("a line after it")
	select {
	case <-ctx.Done():
	case <-lifeline.Done():
	}
	fmt.Fprintln(os.Stderr, "draining")
	if odd == "stubborn" {
		select {}
	}
	_ = server.Close()
	if odd == "unwell" {
		return 4
	}
	return 0
}

// handler is what stands for a node's API.
func handler(name string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/name", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, name+" as "+r.Host) })
	mux.HandleFunc("/crash", func(http.ResponseWriter, *http.Request) { os.Exit(5) })
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(os.Stderr, r.Method, "is here")
		<-r.Context().Done()
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/last", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.WriteString(w, "no more\n")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/streams/") { // which a mux would tidy up
			_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.EscapedPath(), r.URL.RawQuery)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// echo answers each line at once.
func echo(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	buffer := make([]byte, 1<<10)
	for {
		n, err := r.Body.Read(buffer)
		if n > 0 {
			_, _ = w.Write(buffer[:n])
			_ = control.Flush()
		}
		if err != nil {
			return
		}
	}
}

// patience bounds what should take a moment.
const patience = 30 * time.Second
