package clustertest

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
)

// hard is text whose characters have up to four bytes, and are made of several.
const hard = "Grüße, 日本語, 👍🏽 und 😀: ½\n"

// say writes to a push byte by byte, each a write of its own.
func (p *process) say(t testing.TB, text string) {
	t.Helper()
	for i := range len(text) {
		if _, err := p.In.Write([]byte{text[i]}); err != nil {
			t.Fatal(err)
		}
	}
}

// has waits until a stream has text, and that is durable, as a node that lives knows.
func (c *cluster) has(id, text string) {
	c.Helper()
	c.await("text of "+id, func() bool {
		_, cl := c.living(0).place()
		snap, err := cl.Snapshot(c.Context(), id)
		return err == nil && snap.Text == text && snap.DurableSeq == snap.Seq
	})
}

// succeeded checks that a push has made a stream of text.
func (c *cluster) succeeded(push *process, id, text string) {
	c.Helper()
	if code := push.EndedWithin(c, 2*patience); code != 0 {
		c.Errorf("push of %s: exit code %d, said %s", id, code, push.Err)
	}
	if snap := c.living(0).snapshot(id); snap.Status != plane.StatusComplete || snap.Text != text {
		c.Errorf("%s is %s, and %s", id, snap.Status, parting(snap.Text, text))
	}
}

func TestAPushOutlivesItsNodeBeforeItsFirstByte(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	push := launch(t, nil, "push", "m", "--server", c.balance(t).url())
	c.await("stream", func() bool { return c.opened("m") })
	owner, _ := c.host("m")
	owner.kill()
	push.say(t, hard)
	c.has("m", hard) // by another: its own does not come back
	push.say(t, hard)
	_ = push.In.Close()
	c.succeeded(push, "m", hard+hard)
}

// A node is killed while streams are being closed, at every point of it, and while it
// is paused, which is in the middle of it for sure.
func TestAPushOutlivesItsNodeInItsClose(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	at := c.balance(t).url()
	const size = 24
	var pushes [size]*process
	for i := range pushes {
		pushes[i] = launch(t, nil, "push", id(i), "--server", at)
		pushes[i].say(t, hard)
	}
	for i := range pushes {
		c.has(id(i), hard)
	}
	hosts := c.hosts()
	victim := hosts[id(size/2)]
	killed := make(chan struct{})
	for i, push := range pushes {
		switch i {
		case size / 4:
			victim.run().Signal(t, syscall.SIGSTOP)
		case size / 2:
			go func() {
				defer close(killed)
				victim.run().Signal(t, syscall.SIGCONT) // what it does now is not waited for
				victim.run().Signal(t, syscall.SIGKILL)
			}()
		}
		push.say(t, hard)
		_ = push.In.Close()
	}
	<-killed
	victim.run().Ended(t)
	victim.start()
	for i, push := range pushes {
		c.succeeded(push, id(i), hard+hard)
	}
}

func id(i int) string { return "m" + strconv.Itoa(i) }

// feed has a push read a text, and end with it.
func (p *process) feed(text string) {
	go func() {
		_, _ = io.WriteString(p.In, text) // fails if the push does, which tells
		_ = p.In.Close()
	}()
}

func TestAPushGoesOnThroughARollingRestart(t *testing.T) {
	t.Parallel()
	c := open(t, 3, "--drain", "6s")
	at := c.balance(t).url()
	var readers errgroup.Group
	s := c.survive(&readers, "m", at, at, 32*pushRate)
	for _, n := range c.nodes {
		n.stop()
		n.start()
		c.settle()
	}
	if s.push.IsOver() {
		t.Error("the push was over before the restart was")
	}
	s.whole(c)
	if err := readers.Wait(); err != nil || s.reader.rewound > 0 {
		t.Errorf("its reader was taken back %d times, %v", s.reader.rewound, err)
	}
	t.Logf("its reader came back %d times; the push said\n%s", s.reader.returned, s.push.Err)
}

func TestAPushOutlivesTheWholeCluster(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	at := c.balance(t).url()
	var readers errgroup.Group
	s := c.survive(&readers, "m", at, at, 8*pushRate)
	c.await("text", func() bool { return s.reader.at.Load() > 500 })
	for _, n := range c.nodes {
		n.kill()
	}
	<-time.After(20 * time.Second) // its input is read to the end meanwhile
	c.start()
	s.whole(c)
	if err := readers.Wait(); err != nil {
		t.Error(err)
	}
	if said := s.push.Err.String(); strings.Count(said, "\n") != 2 {
		t.Errorf("it said %s", said)
	}
}

// What it could not deliver is lost, and it says how much is not.
func TestAPushWhosePatienceIsOverSaysSo(t *testing.T) {
	t.Parallel()
	c := open(t, 1)
	push := launch(t, nil, "push", "m", "--server", c.balance(t).url(), "--patience", "3s", "--rate", "1000")
	push.say(t, hard)
	c.has("m", hard)
	c.nodes[0].kill()
	killed := time.Now()
	push.feed(strings.Repeat("word ", 200))
	code := push.Ended(t)
	want := fmt.Sprintf("%d units are known to be durable\nIf its node is gone it will end interrupted", plane.Units(hard))
	if said := push.Err.String(); code != 1 || !strings.Contains(said, want) {
		t.Errorf("exit code %d, said %s", code, said)
	}
	t.Logf("it ended %v after the kill", time.Since(killed).Round(time.Second))
	c.nodes[0].start()
	c.await("end", func() bool { return c.nodes[0].snapshot("m").Status == plane.StatusInterrupted })
}
