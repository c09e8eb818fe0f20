package clustertest

import (
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"golang.org/x/sync/errgroup"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
)

const (
	pushRate   = 200 // words a second
	killEvery  = 5 * time.Second
	absentTime = time.Second // until a supervisor starts a node again
)

// killTime is for how long nodes are killed: RILLKEEP_TEST_KILLS=2m for longer.
func killTime(t *testing.T) time.Duration {
	t.Helper()
	said := os.Getenv("RILLKEEP_TEST_KILLS")
	if said == "" {
		return 40 * time.Second
	}
	d, err := time.ParseDuration(said)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fixed gives each node an address that it keeps over its runs. The system gives ports
// of that range to nobody who does not ask for them.
func (c *cluster) fixed() (urls []string) {
	c.Helper()
	for _, n := range c.nodes {
		for at := ""; at == ""; {
			l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(20_000+rand.IntN(10_000)))
			if err != nil {
				continue
			}
			at = l.Addr().String()
			if err := l.Close(); err != nil {
				c.Fatal(err)
			}
			n.args[slices.Index(n.args, "--listen")+1] = at
			urls = append(urls, "http://"+at)
		}
	}
	return urls
}

// survivor is a push of a text, and who reads it, each of whom is led to the cluster by
// the same way.
type survivor struct {
	text   *text
	input  string
	push   *process
	tail   *process
	reader *reader
	kills  int // of the stream's owner
	missed int // so often there was none to kill
}

// survive starts a push of so many words, and its readers.
func (c *cluster) survive(readers *errgroup.Group, id, way, front string, words int) *survivor {
	c.Helper()
	s := &survivor{text: newText(id, words/3)}
	s.text.sent.Store(int64(len(s.text.units)))
	s.input = string(utf16.Decode(s.text.units))
	s.push = launch(c, nil, "push", id, "--server", way, "--rate", strconv.Itoa(pushRate))
	s.push.feed(s.input)
	c.await("stream "+id, func() bool { return c.opened(id) })
	s.tail = launch(c, nil, "tail", id, "--server", way)
	s.reader = &reader{c: c, text: s.text, front: front}
	ctx := c.within(time.Duration(words/pushRate)*time.Second + 3*patience)
	readers.Go(func() error { return s.reader.run(ctx) })
	return s
}

// opened reports whether a stream has a node.
func (c *cluster) opened(id string) bool {
	c.Helper()
	at, _ := c.host(id)
	return at != nil
}

// host is the node that has a stream, and its name then, as far as one that lives knows.
func (c *cluster) host(id string) (at *node, member string) {
	c.Helper()
	_, cl := c.living(0).place()
	page, err := cl.List(c.Context(), client.Query{Prefix: id, Status: "streaming"})
	if err != nil || len(page.Streams) == 0 {
		return nil, ""
	}
	member = page.Streams[0].Host
	for _, n := range c.nodes {
		if n.is(member) && !n.run().IsOver() {
			return n, member
		}
	}
	return nil, ""
}

// killOwner kills who has the stream, and starts it again. dead are those that were
// killed before.
func (s *survivor) killOwner(c *cluster, dead map[string]bool) {
	c.Helper()
	owner, member := c.host(s.text.id)
	if owner == nil || dead[member] {
		s.missed++ // nobody has it yet
		return
	}
	dead[member] = true
	owner.kill()
	s.kills++
	<-time.After(absentTime)
	owner.start()
}

// whole checks that the text is as it was given, wherever it was seen.
func (s *survivor) whole(c *cluster) {
	c.Helper()
	id := s.text.id
	if code := s.push.EndedWithin(c, 2*patience); code != 0 {
		c.Errorf("push of %s: exit code %d, said %s", id, code, s.push.Err)
	}
	if code := s.tail.Ended(c); code != 0 {
		c.Errorf("tail of %s: exit code %d, said %s", id, code, s.tail.Err)
	}
	if got := s.tail.Out.String(); got != s.input {
		c.Errorf("tail of %s printed %s", id, parting(got, s.input))
	}
	if said := s.tail.Err.String(); strings.Contains(said, "goes back") {
		c.Errorf("tail of %s said %s", id, said)
	}
	if snap := c.living(0).snapshot(id); snap.Status != plane.StatusComplete || snap.Text != s.input {
		c.Errorf("%s is %s, and %s", id, snap.Status, parting(snap.Text, s.input))
	}
}

// parting says where one text is not another.
func parting(got, want string) string {
	n := 0
	for n < min(len(got), len(want)) && got[n] == want[n] {
		n++
	}
	return strconv.Itoa(len(got)) + " bytes of " + strconv.Itoa(len(want)) + ", the same up to " + strconv.Itoa(n) +
		", then " + strconv.Quote(got[n:min(n+80, len(got))]) + ", want " + strconv.Quote(want[n:min(n+80, len(want))])
}

// Whoever has the streams is killed, again and again: by a load balancer, and by the
// names of all nodes, producers and readers find who has them next.
func TestPushesAndTheirReadersOutliveTheirNodes(t *testing.T) {
	t.Parallel()
	c := assemble(t, 3)
	urls := c.fixed()
	c.start()
	b := c.balance(t)
	length := killTime(t)
	words := int(length.Seconds()) * pushRate
	var readers errgroup.Group
	pushes := []*survivor{
		c.survive(&readers, "balanced", b.url(), b.url(), words),
		c.survive(&readers, "named", strings.Join(urls, ","), "", words),
	}
	began, dead := time.Now(), map[string]bool{}
	tick := time.NewTicker(killEvery / time.Duration(len(pushes)))
	defer tick.Stop()
	for i := 0; time.Since(began) < length; i++ {
		<-tick.C
		pushes[i%len(pushes)].killOwner(c, dead)
	}
	for _, s := range pushes {
		s.whole(c)
	}
	t.Logf("all had ended %v after %v of kills", (time.Since(began) - length).Round(time.Second), length)
	if err := readers.Wait(); err != nil {
		t.Error(err)
	}
	kills := 0
	for _, s := range pushes {
		r := s.reader
		if r.end.status != plane.StatusComplete || r.pos != int64(len(s.text.units)) {
			t.Errorf("the reader of %s is at %d, and has %s", s.text.id, r.pos, r.end.status)
		}
		kills += s.kills
		if s.kills < int(length/killEvery)/3 {
			t.Errorf("%s's owner was killed %d times in %v", s.text.id, s.kills, length)
		}
		t.Logf("%s: %d units, its owner was killed %d times and %d times not found, its reader came back %d times and was taken back %d times; its push said\n%s",
			s.text.id, r.pos, s.kills, s.missed, r.returned, r.rewound, s.push.Err)
	}
	if kills < 5 {
		t.Errorf("owners were killed %d times", kills)
	}
}
