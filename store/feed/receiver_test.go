package feed_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/feed"
)

func receiver(t *testing.T, cfg feed.ReceiverConfig) *feed.Receiver {
	t.Helper()
	if cfg.Changed == nil {
		cfg.Changed = func(feed.Change) {}
	}
	if cfg.Missed == nil {
		cfg.Missed = func() {}
	}
	r, err := feed.NewReceiver(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func numbered(producer string, seq int) string {
	return fmt.Sprintf(`{"changes":[{"id":"s","seq":%d}],"producer":%q,"seq":%d}`, seq, producer, seq)
}

func beat(producer string, seq int) string {
	return fmt.Sprintf(`{"changes":[],"producer":%q,"seq":%d}`, producer, seq)
}

func TestAReceiverNeedsSomebodyToTell(t *testing.T) {
	if _, err := feed.NewReceiver(feed.ReceiverConfig{}); !errors.Is(err, plane.ErrConfig) {
		t.Errorf("got %v", err)
	}
}

func TestGaps(t *testing.T) {
	for name, c := range map[string]struct {
		listening time.Duration // for how long, when the messages come
		messages  []string
		gaps      int64
		late      int64
	}{
		"none":                                  {time.Minute, []string{numbered("p", 1), numbered("p", 2)}, 0, 0},
		"a lost message":                        {time.Minute, []string{numbered("p", 1), numbered("p", 3)}, 1, 0},
		"the first of a run that began unheard": {0, []string{numbered("p", 7)}, 0, 0},
		"the first ones of a run lost":          {time.Minute, []string{numbered("q", 4), numbered("q", 5)}, 1, 0},
		"the last one lost, and a beat":         {time.Minute, []string{numbered("p", 1), beat("p", 2)}, 1, 0},
		"beats":                                 {time.Minute, []string{numbered("p", 1), beat("p", 1), beat("p", 1), numbered("p", 2)}, 0, 0},
		"a repeat":                              {time.Minute, []string{numbered("p", 1), numbered("p", 1), numbered("p", 2)}, 0, 1},
		"an old one again lowers no bar":        {time.Minute, []string{numbered("p", 1), numbered("p", 2), numbered("p", 1), numbered("p", 3)}, 0, 1},
		"of two runs":                           {time.Minute, []string{numbered("p", 1), numbered("q", 1), numbered("p", 2), numbered("q", 3)}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				missed := int64(0)
				r := receiver(t, feed.ReceiverConfig{Missed: func() { missed++ }})
				time.Sleep(c.listening)
				for _, text := range c.messages {
					r.Message(text)
				}
				if s := r.Stats(); s.Gaps != c.gaps || missed != c.gaps || s.OutOfOrder != c.late || s.Messages != int64(len(c.messages)) {
					t.Errorf("%+v, told %d times", s, missed)
				}
			})
		})
	}
}

func TestANewSessionIsAGapAndForgetsTheNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missed := 0
		r := receiver(t, feed.ReceiverConfig{Missed: func() { missed++ }})
		time.Sleep(time.Minute)
		r.Connected()
		if s := r.Stats(); missed != 1 || s.Gaps != 0 {
			t.Errorf("the first one: %+v, told %d times", s, missed)
		}
		r.Message(numbered("p", 2))
		time.Sleep(time.Minute)
		r.Connected()
		r.Message(numbered("p", 5))
		r.Message(numbered("p", 6))
		if s := r.Stats(); missed != 2 || s.Gaps != 1 || s.Connects != 2 {
			t.Errorf("%+v, told %d times", s, missed)
		}
	})
}

func TestWhatIsHeard(t *testing.T) {
	var got []feed.Change
	r := receiver(t, feed.ReceiverConfig{Self: "own", Changed: func(c feed.Change) { got = append(got, c) }})
	for _, text := range []string{
		numbered("own", 1), numbered("own", 9), // ours; not judged either
		"another application's", `{"changes":[{"id":"a"}]}`,
		`{"changes":[{"id":"a","seq":3,"status":"complete"},{"id":"b","seq":0}],"producer":"p","seq":1}`,
		`{"changes" : [{"id" : "c", "seq" : 4, "epoch" : 2, "cancel" : true}]}`,
	} {
		r.Message(text)
	}
	want := []feed.Change{{ID: "a", Seq: 3, Status: plane.StatusComplete}, {ID: "b"}, {ID: "c", Seq: 4, Epoch: 2, Cancel: true}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v", got)
	}
	if s := r.Stats(); s.Received != 3 || s.Messages != 2 || s.Malformed != 2 || s.Gaps != 0 {
		t.Errorf("%+v", s)
	}
}

func TestNumbersOfManyRunsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver(t, feed.ReceiverConfig{})
		time.Sleep(time.Minute)
		r.Message(numbered("first", 1))
		for n := range 1500 {
			r.Message(numbered(fmt.Sprint("p", n), 1))
			r.Message(numbered("often", 1+n))
			time.Sleep(time.Millisecond)
		}
		if s := r.Stats(); s.Gaps != 0 {
			t.Errorf("%+v", s)
		}
		r.Message(numbered("first", 2)) // forgotten: it may be one that was missed
		if s := r.Stats(); s.Gaps != 1 {
			t.Errorf("%+v", s)
		}
	})
}
