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
	script *script
	row    storetest.Row
	over   map[string]bool // tokens that the row had, and has no more
	owners []string        // in their order, without marks
	opens  int
}

func newJudge(t *testing.T) *judge { return &judge{t: t, rows: make(map[string]*history)} }

// expect says what the text of a stream is to be.
func (j *judge) expect(id string, s *script) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rows[id] = &history{script: s, over: make(map[string]bool)}
}

// of is the history of a row so far.
func (j *judge) of(id string) history {
	j.mu.Lock()
	defer j.mu.Unlock()
	return *j.rows[id]
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
	h.row = c.After
	if c.Kind == "open" {
		h.opens++
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
	if c.After.Token == c.Before.Token {
		return
	}
	if c.Kind == "edit" { // not by anybody who writes: the database went back
		delete(h.over, c.After.Token)
		return
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

// prefix is the check of P: a row's text is what was produced, and never gets shorter.
func (j *judge) prefix(h *history, c storetest.Change) {
	text := c.After.Body
	for _, chunk := range c.After.Chunks {
		text += chunk.Text
	}
	switch {
	case c.After.Seq < c.Before.Seq:
		j.t.Errorf("P: %s: %s by %s makes it %d of %d units", c.ID, c.Kind, c.By, c.After.Seq, c.Before.Seq)
	case text != h.script.text(0, c.After.Seq):
		j.t.Errorf("P: %s: %s by %s makes it %d units, which are not the script's: %q", c.ID, c.Kind, c.By, c.After.Seq, text)
	}
}
