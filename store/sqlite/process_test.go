package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/lease"
	"rillkeep.dev/rillkeep/store/sqlite"
)

// A process of this test binary with these in its environment is a node of a file.
const (
	roleEnv = "RILLKEEP_TEST_SQLITE_ROLE"
	pathEnv = "RILLKEEP_TEST_SQLITE_PATH"
	nameEnv = "RILLKEEP_TEST_SQLITE_NAME"
)

func TestMain(m *testing.M) {
	roles := map[string]func(ctx context.Context, p *process) error{"node": beNode, "bench": beBench}
	role := roles[os.Getenv(roleEnv)]
	if role == nil {
		os.Exit(m.Run())
	}
	if err := run(role); err != nil {
		fmt.Fprintln(os.Stderr, os.Getenv(nameEnv), err)
		os.Exit(1)
	}
}

// process is this process, where it is a node of a file.
type process struct {
	*sqlite.Store
	name string
	in   *bufio.Reader

	mu  sync.Mutex // guards below
	out io.Writer
}

func run(role func(context.Context, *process) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s, err := sqlite.Open(ctx, os.Getenv(pathEnv), sqlite.Config{})
	if err != nil {
		return err
	}
	err = role(ctx, &process{Store: s, name: os.Getenv(nameEnv), in: bufio.NewReader(os.Stdin), out: os.Stdout})
	return errors.Join(err, s.Close(ctx))
}

// say writes a line.
func (p *process) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// told waits for a line.
func (p *process) told() error {
	_, err := p.in.ReadString('\n')
	return err
}

// child is such a process as its parent has it.
type child struct {
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Scanner
}

func start(tb testing.TB, role, path, name string) *child {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, pathEnv+"="+path, nameEnv+"="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &child{cmd: cmd, in: in, lines: bufio.NewScanner(out)}
}

func (c *child) tell(tb testing.TB, line string) {
	tb.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		tb.Fatal(err)
	}
}

// next returns the words of the next line; nil if there is none.
func (c *child) next() []string {
	if !c.lines.Scan() {
		return nil
	}
	return strings.Fields(c.lines.Text())
}

// What the nodes of TestProcessesOfOneFile do.
const (
	contested = 200 // ids that all of them open
	own       = 10  // streams of each, to which it appends
)

// slice is the n-th checkpoint of a stream.
func slice(id string, n int) string { return fmt.Sprintf("%s says %d 😀, ", id, n) }

// beNode opens what it can of the contested streams and says which; then it appends
// to streams of its own, and says what is durable, until it is told to seal them.
func beNode(ctx context.Context, p *process) error {
	self := store.Node{Name: p.name, Incarnation: "boot1"}
	if err := p.Supersede(ctx, self.Name, self.Incarnation); err != nil {
		return err
	}
	k, err := lease.Keep(ctx, lease.Config{Store: p, Node: self, TTL: 2 * time.Second, Grace: 2 * time.Second})
	if err != nil {
		return err
	}
	p.say("ready")
	if err := p.told(); err != nil {
		return err
	}
	for n := range contested {
		row, err := p.open(ctx, fmt.Sprint("contested", n))
		switch {
		case err == nil:
			p.say("won contested%d %s", n, row.Token)
		case !errors.Is(err, plane.ErrHeld):
			return err
		}
	}
	p.say("opened")
	stop := make(chan struct{})
	errs := make([]error, own)
	var all sync.WaitGroup
	for n := range own {
		all.Go(func() { errs[n] = p.stream(ctx, fmt.Sprintf("%s-%d", p.name, n), stop) })
	}
	err = p.told()
	close(stop)
	all.Wait()
	p.say("done")
	return errors.Join(append(errs, err, k.Release(ctx))...)
}

func (p *process) open(ctx context.Context, id string) (row plane.Row, err error) {
	for row, err = p.Open(ctx, plane.Claim{ID: id, Node: p.name + "/boot1"}); errors.Is(err, store.ErrBusy); {
		row, err = p.Open(ctx, plane.Claim{ID: id, Node: p.name + "/boot1"})
	}
	return row, err
}

func (p *process) stream(ctx context.Context, id string, stop <-chan struct{}) error {
	row, err := p.open(ctx, id)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		text := slice(id, n)
		next, err := p.Append(ctx, plane.Slice{ID: id, Token: row.Token, From: row.Seq, Seq: row.Seq + plane.Units(text), Text: text})
		if err != nil || next.Seq <= row.Seq {
			return fmt.Errorf("append to %s: %+v after %+v, %w", id, next, row, err)
		}
		row = next
		p.say("durable %s %d", id, row.Seq)
		select {
		case <-stop:
			return p.seal(ctx, id, row, n+1)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *process) seal(ctx context.Context, id string, row plane.Row, slices int) error {
	var text strings.Builder
	for n := range slices {
		text.WriteString(slice(id, n))
	}
	row, err := p.Seal(ctx, plane.Seal{ID: id, Token: row.Token, Status: plane.StatusComplete, From: row.Seq, Seq: row.Seq, Text: text.String()})
	if err == nil && row.Status != plane.StatusComplete {
		err = fmt.Errorf("seal of %s: %+v", id, row)
	}
	return err
}

// heard is what a node has said.
type heard struct {
	won     map[string]string // tokens by ids
	durable map[string]int64  // lengths by ids
}

// hear reads what a node says until a word.
func (c *child) hear(tb testing.TB, until string, into *heard) {
	tb.Helper()
	for {
		switch words := c.next(); {
		case words == nil:
			if until != "" {
				tb.Fatalf("a process ended before it said %q", until)
			}
			return
		case words[0] == until:
			return
		case words[0] == "won":
			into.won[words[1]] = words[2]
		case words[0] == "durable":
			into.durable[words[1]], _ = strconv.ParseInt(words[2], 10, 64)
		}
	}
}

func TestProcessesOfOneFile(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/rillkeep.db"
	s := open(t, path, sqlite.Config{})
	names := []string{"n1", "n2", "n3"}
	nodes, said := make(map[string]*child), make(map[string]*heard)
	for _, name := range names {
		nodes[name] = start(t, "node", path, name)
		said[name] = &heard{won: map[string]string{}, durable: map[string]int64{}}
	}
	for _, name := range names {
		nodes[name].hear(t, "ready", said[name])
		if err := s.TakeName(t.Context(), name); !errors.Is(err, store.ErrNameInUse) {
			t.Errorf("the name of %s: %v", name, err)
		}
	}
	for _, name := range names {
		nodes[name].tell(t, "open")
	}
	for _, name := range names {
		nodes[name].hear(t, "opened", said[name])
	}
	for n := range contested { // O
		id := fmt.Sprint("contested", n)
		row, err := s.Read(t.Context(), id)
		var owners []string
		for _, name := range names {
			if token, ok := said[name].won[id]; ok {
				owners = append(owners, token)
			}
		}
		if len(owners) != 1 || err != nil || row.Token != owners[0] {
			t.Errorf("%s: the row is %+v, %v; the owners are %q", id, row, err, owners)
		}
	}

	dies := nodes["n1"]
	for enough := false; !enough; {
		words := dies.next()
		if words[0] == "durable" {
			said["n1"].durable[words[1]], _ = strconv.ParseInt(words[2], 10, 64)
		}
		enough = len(said["n1"].durable) == own && said["n1"].durable["n1-0"] > 400
	}
	if err := dies.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	dies.hear(t, "", said["n1"]) // what it had said until then
	_ = dies.cmd.Wait()
	if err := s.TakeName(t.Context(), "n1"); err != nil {
		t.Errorf("the dead one's name is not free: %v", err)
	}

	var reading sync.WaitGroup // a pipe that is full would stop them
	for _, name := range names[1:] {
		reading.Go(func() { nodes[name].hear(t, "", said[name]) })
	}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		left := 0
		for id := range said["n1"].durable {
			if row, err := s.Read(t.Context(), id); err != nil || row.Status == plane.StatusStreaming {
				left++
			}
		}
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d streams of the dead one are not sealed (L)", left)
		}
	}
	for _, name := range names[1:] {
		nodes[name].tell(t, "seal")
	}
	reading.Wait()
	for _, name := range names[1:] {
		if err := nodes[name].cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range names {
		want := plane.StatusComplete
		if name == "n1" {
			want = plane.StatusInterrupted
		}
		if len(said[name].durable) != own {
			t.Errorf("%s had %d streams", name, len(said[name].durable))
		}
		for id, durable := range said[name].durable {
			page, err := s.Text(t.Context(), id, 0, store.MaxPage)
			var text strings.Builder
			for n := 0; text.Len() < len(page.Text); n++ {
				text.WriteString(slice(id, n))
			}
			if err != nil || page.Status != want || page.Text != text.String() || page.Seq < durable || page.Seq != page.End() {
				t.Errorf("%s is %s with %d units, %v, want %s, %d or more", id, page.Status, page.Seq, err, want, durable)
			}
		}
	}
}
