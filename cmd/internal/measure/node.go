package measure

import (
	"context"
	"fmt"
	"io"
	"os"

	"rillkeep.dev/rillkeep/router/node"
)

// ServeNode is a Child that is a node by itself, with its store in a folder of that name
// which goes with it.
func ServeNode(folder string) error {
	dir, err := os.MkdirTemp("", folder)
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(dir)
	return Serve(node.Config{Listen: "127.0.0.1:0", Data: dir})
}

// Serve is a Child that is a node.
func Serve(cfg node.Config) error {
	n, err := node.Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	fmt.Println(n.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return n.Close()
}
