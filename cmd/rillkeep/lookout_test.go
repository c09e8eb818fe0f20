package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

func TestASilentStreamIsLookedAtAndWhatIsNewIsSaid(t *testing.T) {
	chunk, end := plane.Frame{Kind: plane.KindChunk}, plane.Frame{Kind: plane.KindEnd}
	broken := errors.New("the connection broke")
	const isAway = "rillkeep: the stream's node is away, and 7 units are durable; waiting for the stream to go on or to end\n"
	for name, tt := range map[string]struct {
		sights []sight // of looks, one after the other; the last stays
		then   func(l *lookout)
		want   string
	}{
		"a model that thinks":          {[]sight{there}, func(*lookout) {}, ""},
		"nobody answers":               {[]sight{unseen}, func(*lookout) {}, ""},
		"its node is away":             {[]sight{there, away}, func(*lookout) {}, isAway},
		"and comes back":               {[]sight{away, unseen, there}, func(*lookout) {}, isAway + "rillkeep: the stream's node is back\n"},
		"and its text goes on":         {[]sight{away}, func(l *lookout) { l.hear(chunk); l.hear(chunk) }, isAway + "rillkeep: the stream goes on\n"},
		"and it ends":                  {[]sight{away}, func(l *lookout) { l.hear(end) }, isAway},
		"it is away again":             {[]sight{away, there, away}, func(*lookout) {}, isAway + "rillkeep: the stream's node is back\n" + isAway},
		"the connection is lost":       {[]sight{unseen}, func(l *lookout) { l.lost(broken); l.lost(broken) }, "rillkeep: the connection broke; connecting again\n"},
		"and there is another":         {[]sight{unseen}, func(l *lookout) { l.lost(broken); l.hear(chunk) }, "rillkeep: the connection broke; connecting again\nrillkeep: the stream goes on\n"},
		"of one that is known away":    {[]sight{away}, func(l *lookout) { l.lost(broken) }, isAway},
		"a frame that comes meanwhile": {[]sight{unseen}, func(l *lookout) { l.hear(chunk); l.tell(away, 7) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said strings.Builder
				looks := 0
				l := &lookout{con: &console{err: &said}, look: func(context.Context) (sight, int64) {
					looks++
					return tt.sights[min(looks, len(tt.sights))-1], 7
				}}
				ctx, stop := context.WithCancel(t.Context())
				go l.run(ctx)
				time.Sleep(6 * quietTime)
				synctest.Wait()
				tt.then(l)
				stop()
				synctest.Wait()
				if said.String() != tt.want || looks < 5 {
					t.Errorf("after %d looks it has said %q, want %q", looks, &said, tt.want)
				}
			})
		})
	}
}

func TestAStreamThatSpeaksIsNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lookout{con: &console{}, look: func(context.Context) (sight, int64) {
			t.Error("it is")
			return unseen, 0
		}}
		ctx, stop := context.WithCancel(t.Context())
		go l.run(ctx)
		for range 20 {
			l.hear(plane.Frame{Kind: plane.KindChunk})
			time.Sleep(quietTime - time.Second)
		}
		stop()
		synctest.Wait()
	})
}
