package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Child is a server in a process of its own, so that what it uses can be told
// from what others do.
type Child struct {
	URL string
	PID int

	cmd   *exec.Cmd
	stdin io.Closer
}

// Start runs this program as a server, with "serve" before its arguments. It
// says its URL on a line, and ends when its standard input does: also when the
// process that measures is gone.
func Start(ctx context.Context, args ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"serve"}, args...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	c := &Child{PID: cmd.Process.Pid, cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("server did not start: %w", err), c.Stop())
	}
	c.URL = strings.TrimSpace(line)
	return c, nil
}

// Stop ends the server and waits for that.
func (c *Child) Stop() error {
	_ = c.stdin.Close()
	return c.cmd.Wait()
}
