package clustertest

import (
	"strings"
	"sync"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// judge sees each change of a row as it takes effect.
type judge struct {
	t *testing.T

	mu   sync.Mutex // guards below
	rows map[string]*history
}

// history is what became of one row.
type history struct {
	script  *script // what the first producer says
	texts   []text  // what the row's text is, by epoch
	origins []int64 // at which epochs began, after the first
	before  int64   // its length before the newest change
	heirs   map[string]*script
	row     storetest.Row
	taken   string          // token of who had it before the newest takeover
	over    map[string]bool // tokens that the row had, and has no more
	wrote   map[string]bool // tokens by which text was written
	owners  []string        // in their order, without marks
	opens   int
}

// text is what a row has from an epoch on.
type text struct {
	epoch  int64
	script *script
}

// last is what the row has now.
func (h history) last() *script { return h.texts[len(h.texts)-1].script }

func newJudge(t *testing.T) *judge { return &judge{t: t, rows: make(map[string]*history)} }

// expect says what the text of a stream is to be.
func (j *judge) expect(id string, s *script) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rows[id] = &history{script: s, texts: []text{{0, s}}, heirs: make(map[string]*script), over: make(map[string]bool), wrote: make(map[string]bool)}
}

// heir says what a producer says after the text that it finds, if it takes a stream
// over.
func (j *judge) heir(id, producer string, s *script) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rows[id].heirs[producer] = s
}

// of is the history of a row so far.
func (j *judge) of(id string) history {
	j.mu.Lock()
	defer j.mu.Unlock()
	return *j.rows[id]
}

// streaming is how many rows say so.
func (j *judge) streaming() (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, h := range j.rows {
		if h.row.Status == plane.StatusStreaming {
			n++
		}
	}
	return n
}

// watch is the database's: it must not call it.
func (j *judge) watch(c storetest.Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.rows[c.ID]
	if h == nil {
		j.t.Errorf("%s: a row that nobody asked for", c.ID)
		return
	}
	h.row, h.before = c.After, c.Before.Seq
	switch c.Kind {
	case "open":
		h.opens++
	case "takeover":
		j.takeover(h, c)
	}
	j.owner(h, c)
	j.prefix(h, c)
}

// owner is the check of O: who writes has the row, and who has lost it once writes no
// more.
func (j *judge) owner(h *history, c storetest.Change) {
	if c.Kind == "append" || c.Kind == "seal" || c.Kind == "disown" {
		if c.By != c.Before.Token || c.Before.Status != plane.StatusStreaming || h.over[c.By] {
			j.t.Errorf("O: %s: %s by %s, and the row is %s of %s", c.ID, c.Kind, c.By, c.Before.Status, c.Before.Token)
		}
	}
	if c.Before.Status.Ended() && (c.Kind != "open" || c.Before.Seq > 0) { // an id without text is free again
		j.t.Errorf("O: %s: %s by %s after its end: %+v", c.ID, c.Kind, c.By, c.After)
	}
	h.wrote[c.By] = h.wrote[c.By] || c.Kind == "append"
	if c.After.Token == c.Before.Token {
		return
	}
	if c.Kind == "edit" { // not by anybody who writes: the database went back
		delete(h.over, c.After.Token)
		return
	}
	if c.Kind == "adopt" && !h.wrote[c.After.Token] { // it was put back, and never live
		delete(h.over, c.After.Token)
	}
	h.over[c.Before.Token] = true
	if h.over[c.After.Token] {
		j.t.Errorf("O: %s: token %s comes back", c.ID, c.After.Token)
	}
	if !strings.HasPrefix(c.After.Token, "/") {
		h.owners = append(h.owners, c.After.Token)
	}
	if c.Kind == "open" && c.After.Epoch <= c.Before.Epoch {
		j.t.Errorf("O: %s: epoch %d after %d", c.ID, c.After.Epoch, c.Before.Epoch)
	}
}

// takeover is the check of a new epoch: it begins where the durable text ends, and what
// its producer says follows that.
func (j *judge) takeover(h *history, c storetest.Change) {
	begun := plane.Row{Token: c.After.Token}.Origins()
	switch {
	case c.After.Epoch != c.Before.Epoch+1 || c.After.Seq != c.Before.Seq:
		j.t.Errorf("O: %s: taken over by %s at %d in epoch %d after %d in epoch %d", c.ID, c.By, c.After.Seq, c.After.Epoch, c.Before.Seq, c.Before.Epoch)
	case len(begun) == 0 || begun[len(begun)-1] != c.Before.Seq:
		j.t.Errorf("P: %s: what %s takes over at %d begins at %v", c.ID, c.By, c.Before.Seq, begun)
	case plane.NodeOf(c.Before.Token) == "":
		j.t.Errorf("O: %s: %s takes over what was given up: %s", c.ID, c.By, c.Before.Token)
	}
	h.taken = c.Before.Token
	h.origins = append(h.origins[:len(h.origins):len(h.origins)], c.Before.Seq)
	if heir := h.heirs[c.After.Producer]; heir != nil {
		h.texts = append(h.texts[:len(h.texts):len(h.texts)], text{c.After.Epoch, h.last().until(c.Before.Seq, heir)})
	}
}

// prefix is the check of P: a row's text is what was produced, and never gets shorter.
func (j *judge) prefix(h *history, c storetest.Change) {
	text := c.After.Body
	for _, chunk := range c.After.Chunks {
		text += chunk.Text
	}
	switch {
	case c.After.Seq < c.Before.Seq:
		j.t.Errorf("P: %s: %s by %s makes it %d of %d units", c.ID, c.Kind, c.By, c.After.Seq, c.Before.Seq)
	case text != h.last().text(0, c.After.Seq):
		j.t.Errorf("P: %s: %s by %s makes it %d units, which are not the script's: %q", c.ID, c.Kind, c.By, c.After.Seq, text)
	}
}
