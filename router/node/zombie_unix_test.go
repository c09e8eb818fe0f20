//go:build unix

package node_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// zombieEnv makes this test binary a node of the database that it names.
const zombieEnv = "RILLKEEP_TEST_ZOMBIE"

// zombie is a node in a process of its own.
type zombie struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	http   *http.Client
	client *client.Client
}

func startZombie(t *testing.T, database string) *zombie {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestAPausedOwnerTouchesNothingOfItsSuccessors$")
	cmd.Env = append(os.Environ(), zombieEnv+"="+database)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://") {
		t.Fatalf("the process said %q, %v", line, err)
	}
	z := &zombie{t: t, cmd: cmd, url: strings.TrimSpace(line), http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(z.http.CloseIdleConnections)
	if z.client, err = client.New(client.Config{Server: z.url, HTTP: z.http}); err != nil {
		t.Fatal(err)
	}
	return z
}

// beZombie serves until the process is killed.
func beZombie(t *testing.T, database string) {
	n, err := node.Open(context.Background(), brief(database, "zombie"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(n.URL())
	<-n.Failed()
	t.Error(n.Close())
}

func (z *zombie) signal(sig syscall.Signal) {
	z.t.Helper()
	if err := z.cmd.Process.Signal(sig); err != nil {
		z.t.Fatal(err)
	}
}

// open makes a stream with a durable text.
func (z *zombie) open(id, text string) {
	z.t.Helper()
	_, err := z.client.Open(z.t.Context(), id, wire.Open{})
	if err == nil && text != "" {
		_, err = z.client.Append(z.t.Context(), id, 0, text)
	}
	if err == nil {
		_, err = z.client.Flush(z.t.Context(), id)
	}
	if err != nil {
		z.t.Fatal(err)
	}
}

// O: a node that was paused past its lease wakes up and believes that its streams
// are its own.
func TestAPausedOwnerTouchesNothingOfItsSuccessors(t *testing.T) {
	if database := os.Getenv(zombieEnv); database != "" {
		beZombie(t, database)
		return
	}
	t.Parallel()
	database := pgtest.URL(t)
	n, z := openNode(t, brief(database, "n1")), startZombie(t, database)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	z.open("kept", "what was durable")
	z.open("taken", "")
	z.open("idle", "nobody asks")
	join := func(id, query string) *reader {
		t.Helper()
		r, err := joinAs(ctx, z.http, z.url+path(id)+"?"+query)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	live, auto := join("kept", "plane=live"), join("kept", "")
	for _, r := range []*reader{live, auto} {
		if err := r.until(16); err != nil {
			t.Fatal(err)
		}
	}

	z.signal(syscall.SIGSTOP)
	for _, id := range []string{"kept", "taken", "idle"} {
		await(t, id+" is swept", func() bool { return n.rowOf(id).Status == plane.StatusInterrupted })
	}
	n.open("taken")
	n.push("taken", 0, "the new owner's text")
	n.flush("taken")
	before := n.rowOf("taken")
	z.signal(syscall.SIGCONT)

	// It may take the text into memory; it must not call it durable.
	if _, err := z.client.Append(ctx, "taken", 0, "the zombie's"); err != nil && !refused(err) {
		t.Errorf("append to taken: %v", err)
	}
	if _, err := z.client.Flush(ctx, "taken"); !refused(err) {
		t.Errorf("flush of taken: %v", err)
	}
	if _, err := z.client.Append(ctx, "kept", 16, ", and more"); err != nil && !refused(err) {
		t.Errorf("append to kept: %v", err)
	}
	// Unless it has found out by itself, and answers how its stream ended.
	if sealed, err := z.client.Close(ctx, "kept", wire.Close{}); !refused(err) && (err != nil || sealed.Status != plane.StatusInterrupted || sealed.Seq != 16) {
		t.Errorf("close of kept: %+v, %v", sealed, err)
	}
	for _, id := range []string{"taken", "kept"} { // and says so from then on
		await(t, "appends to "+id+" are refused", func() bool {
			_, err := z.client.Append(ctx, id, 100, "x")
			return refused(err)
		})
	}
	if sealed, err := z.client.Close(ctx, "idle", wire.Close{}); err != nil || sealed.Status != plane.StatusInterrupted {
		t.Errorf("close of idle: %+v, %v", sealed, err)
	}
	if err := live.rest(); err != nil || live.end.Kind != plane.KindStale {
		t.Errorf("a live reader was told %+v, %v", live.end, err)
	}
	wantTerminal(t, auto)

	if after := n.rowOf("taken"); after.Epoch != 2 || after.Seq != before.Seq || after.Status != plane.StatusStreaming || !after.UpdatedAt.Equal(before.UpdatedAt) {
		t.Errorf("the row was %+v and is %+v", before, after)
	}
	n.push("taken", 20, ", untouched")
	n.seal("taken")
	wantEnding(t, n, "taken", plane.StatusComplete, "the new owner's text, untouched")
	wantEnding(t, n, "kept", plane.StatusInterrupted, "what was durable")
	wantEnding(t, n, "idle", plane.StatusInterrupted, "nobody asks")
}

// refused reports whether an owner was told that a stream is not its own, or not
// live, any more.
func refused(err error) bool {
	for _, why := range []error{plane.ErrFenced, plane.ErrHeld, plane.ErrClosed} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}

// wantTerminal fails the test unless a reader that may have been shown what was
// never durable is taken back and told the end.
func wantTerminal(t *testing.T, r *reader) {
	t.Helper()
	defer r.body.Close()
	for {
		f, err := nextRaw(r)
		switch {
		case err != nil:
			t.Errorf("the reader's connection ended with %v, and no end", err)
			return
		case f.Kind == plane.KindEnd:
			if f.Status != plane.StatusInterrupted || f.Seq != 16 {
				t.Errorf("the reader was told %+v", f)
			}
			return
		}
	}
}

// nextRaw is the next frame, past what a transcript of one open allows.
func nextRaw(r *reader) (plane.Frame, error) {
	event, err := r.events.Next()
	if err != nil {
		return plane.Frame{}, err
	}
	return plane.ParseFrame(event.Data)
}
