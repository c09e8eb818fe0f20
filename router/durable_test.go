package router

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
	"rillkeep.dev/rillkeep/store"
)

// Who is told nothing of a new epoch takes its frames for another text's.
func TestADurableReaderIsToldOfALaterEpochByAnOpenWhereItIs(t *testing.T) {
	r := oneOf(t, two{})
	d := r.goOn("m", sse.Position{Offset: 3, Epoch: 2})
	defer d.Close()
	page := func(from int64, text, token string, epoch int64) {
		var p store.Page
		p.Token = token
		p.From, p.Text, p.Epoch, p.Status = from, text, epoch, plane.StatusStreaming
		p.Seq = from + plane.Units(text)
		d.take(p)
	}
	page(3, "de", "n/2/3/3", 3) // it has begun since
	page(5, "f", "n/2/3/3", 3)
	page(6, "g", "n/2/4/3,6", 4) // and one more
	type told struct {
		Kind        plane.Kind
		From, Epoch int64
	}
	var got []told
	for _, f := range d.queue {
		if f.Kind != plane.KindDurable {
			got = append(got, told{f.Kind, f.From, f.Epoch})
		}
	}
	want := []told{{plane.KindOpen, 3, 3}, {plane.KindChunk, 3, 3}, {plane.KindChunk, 5, 3}, {plane.KindOpen, 6, 4}, {plane.KindChunk, 6, 4}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
