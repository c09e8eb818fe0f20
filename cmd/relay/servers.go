package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"

	"rillkeep.dev/rillkeep/cmd/internal/measure"
	"rillkeep.dev/rillkeep/router/node"
)

// serve runs one of the servers until its standard input ends, which is when
// the process that measures is gone.
func serve(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "node":
		return serveNode(args[1], args[2], args[3])
	case len(args) == 2 && args[0] == "proxy":
		return serveProxy(args[1])
	default:
		return errors.New("serve takes node with its name, folder and secret, or proxy with a URL")
	}
}

func serveNode(name, folder, secret string) error {
	return measure.Serve(node.Config{
		Listen: "127.0.0.1:0", Data: folder, Name: name,
		Cluster: &node.Cluster{Secrets: []string{secret}, GossipListen: "127.0.0.1:0", PeerListen: "127.0.0.1:0"},
	})
}

// serveProxy is the least that a Go server can do in front of the owner.
func serveProxy(owner string) error {
	to, err := url.Parse(owner)
	if err != nil {
		return fmt.Errorf("read URL: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
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
