package client_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// deltas is a source that has them all.
func deltas(texts ...string) func(context.Context) iter.Seq2[string, error] {
	return func(context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for _, text := range texts {
				if !yield(text, nil) {
					return
				}
			}
		}
	}
}

// silentAfter is a source that gives one delta and then waits for its context's
// end, which it reports.
func silentAfter(delta string, over chan<- error) func(context.Context) iter.Seq2[string, error] {
	return func(ctx context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			if delta != "" && !yield(delta, nil) {
				over <- nil
				return
			}
			<-ctx.Done()
			over <- ctx.Err()
			yield("", ctx.Err())
		}
	}
}

func TestPumpDeliversExactlyTheDeltas(t *testing.T) {
	t.Parallel()
	c := start(t)
	large := strings.Repeat("Grüße 😀 ", 2<<20/16)
	for name, tt := range map[string]struct {
		deltas []string
		want   string
	}{
		"none":               {nil, ""},
		"empty ones":         {[]string{"", "a", "", "b", ""}, "ab"},
		"many":               {strings.SplitAfter(strings.Repeat("word ", 5000), " "), strings.Repeat("word ", 5000)},
		"2 MB in one":        {[]string{large}, large},
		"much to be escaped": {[]string{strings.Repeat("\x01\"", 150<<10)}, strings.Repeat("\x01\"", 150<<10)},
		"half pairs":         {[]string{"a\xed\xa0\xbd", "\xed\xb8\x80b", "\xed\xa0\xbd", "c\xed\xb8\x80"}, "a😀b\ufffdc\ufffd"},
		"lines and quotes":   {[]string{"a\r\n\r\ndata: x\n", "\"}\n{\"text\":\"y", "\u2028"}, "a\r\n\r\ndata: x\n\"}\n{\"text\":\"y\u2028"},
		"NUL and bad bytes":  {[]string{"a\x00b\xffc"}, "a\ufffdb\ufffdc"},
	} {
		open(t, c, name)
		var acks []wire.Ack
		ack, err := c.Pump(within(t, patience), name, 0, deltas(tt.deltas...), func(a wire.Ack) { acks = append(acks, a) })
		if err != nil || !ack.Done || ack.Cancelled || ack.Seq != plane.Units(tt.want) {
			t.Errorf("%s: %+v, %v, want done at %d", name, ack, err, plane.Units(tt.want))
		}
		for i, a := range append(acks, ack) {
			if a.DurableSeq > a.Seq || i > 0 && (a.Seq < acks[i-1].Seq || a.DurableSeq < acks[i-1].DurableSeq) {
				t.Errorf("%s: acknowledgement %d of %+v goes back", name, i, acks)
			}
		}
		closed(t, c, name)
		if got := textOf(t, c, name); got != tt.want {
			t.Errorf("%s: %d units, %.60q, want %d, %.60q", name, plane.Units(got), got, plane.Units(tt.want), tt.want)
		}
	}
}

func TestPumpIsAcknowledgedAsItGoes(t *testing.T) {
	t.Parallel()
	c := start(t)
	open(t, c, "m")
	durable := make(chan int64, 100)
	source := func(ctx context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			if !yield("first", nil) {
				return
			}
			for seq := int64(0); seq < 5; {
				select {
				case seq = <-durable:
				case <-ctx.Done():
					yield("", ctx.Err())
					return
				}
			}
			yield(" second", nil)
		}
	}
	ack, err := c.Pump(within(t, patience), "m", 0, source, func(a wire.Ack) { durable <- a.DurableSeq })
	if err != nil || ack.Seq != 12 {
		t.Errorf("pump: %+v, %v", ack, err)
	}
}

func TestPumpGoesOnWhereItsProducerWas(t *testing.T) {
	t.Parallel()
	c := start(t)
	open(t, c, "m")
	ctx := within(t, patience)
	if _, err := c.Pump(ctx, "m", 0, deltas("one ", "two "), nil); err != nil {
		t.Fatal(err)
	}
	ack, err := c.Pump(ctx, "m", 4, deltas("two ", "three"), nil)
	if err != nil || ack.Seq != 13 {
		t.Errorf("pump that repeats: %+v, %v", ack, err)
	}
	if got := textOf(t, c, "m"); got != "one two three" {
		t.Errorf("text %q", got)
	}
}

func TestPumpTellsItsSourcesErrorFromItsOwn(t *testing.T) {
	t.Parallel()
	c := start(t)
	open(t, c, "m")
	broken := errors.New("the model broke off")
	source := func(context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			_ = yield("all of ", nil) && yield("this arrives", nil) && yield("", broken)
		}
	}
	ack, err := c.Pump(within(t, patience), "m", 0, source, nil)
	var reported *client.SourceError
	if !errors.As(err, &reported) || !errors.Is(err, broken) || err.Error() != broken.Error() {
		t.Errorf("pump: %v", err)
	}
	if got := textOf(t, c, "m"); got != "all of this arrives" || ack.Seq != plane.Units(got) {
		t.Errorf("text %q, acknowledged %+v", got, ack)
	}
	if snap, err := c.Snapshot(t.Context(), "m"); err != nil || snap.Status != plane.StatusStreaming {
		t.Errorf("the stream is %s, %v", snap.Status, err)
	}
}

func TestPumpEndsItsSilentSourceWhenAskedToStop(t *testing.T) {
	t.Parallel()
	c := start(t)
	open(t, c, "m")
	over := make(chan error, 1)
	asked := make(chan error, 1)
	ctx := within(t, patience)
	go func() {
		for f, err := range c.Follow(ctx, "m", 0, "") {
			if err == nil && f.Kind == plane.KindChunk {
				_, err = c.Cancel(ctx, "m")
			}
			if err != nil || f.Kind == plane.KindChunk {
				asked <- err
				return
			}
		}
	}()
	ack, err := c.Pump(ctx, "m", 0, silentAfter("some text", over), nil)
	if err != nil || !ack.Cancelled {
		t.Errorf("pump: %+v, %v, want cancelled and no error", ack, err)
	}
	if err := <-asked; err != nil {
		t.Error(err)
	}
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("the source's context: %v", err)
	}
	if sealed := closed(t, c, "m"); sealed.Status != plane.StatusCancelled {
		t.Errorf("sealed %s", sealed.Status)
	}
}

func TestPumpEndsWhenTheServerIsGone(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	for name, end := range map[string]func(*proxy, *client.Client) error{
		"the connection is cut": func(p *proxy, _ *client.Client) error { p.cut(); return nil },
		"another seals it": func(_ *proxy, c *client.Client) error {
			_, err := c.Close(context.Background(), "another seals it", wire.Close{})
			return err
		},
	} {
		p := openProxy(t, n.Addr().String(), unlimited)
		c, direct := connect(t, client.Config{Server: p.url()}), connect(t, client.Config{Server: n.URL()})
		open(t, c, name)
		over := make(chan error, 1)
		ended := make(chan error, 1)
		ctx := within(t, patience)
		go func() {
			for f, err := range direct.Follow(ctx, name, 0, "") {
				if err != nil || f.Kind == plane.KindChunk {
					ended <- errors.Join(err, end(p, direct))
					return
				}
			}
		}()
		_, err := c.Pump(ctx, name, 0, silentAfter("some text", over), nil)
		var reported *client.SourceError
		if err == nil || errors.As(err, &reported) || ctx.Err() != nil {
			t.Errorf("%s: %v", name, err)
		}
		if sealed := errors.Is(err, plane.ErrClosed); sealed != (name == "another seals it") {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the source's context: %v", name, err)
		}
	}
}

func TestPumpEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := start(t)
	open(t, c, "m")
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	source := silentAfter("", over)
	_, err := c.Pump(ctx, "m", 0, func(ctx context.Context) iter.Seq2[string, error] {
		cancel()
		return source(ctx)
	}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("pump: %v", err)
	}
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("the source's context: %v", err)
	}
}

func TestPumpCutsLargeDeltasBetweenCharacters(t *testing.T) {
	t.Parallel()
	c := start(t)
	for shift := range 4 {
		id := strings.Repeat("s", shift+1)
		open(t, c, id)
		text := strings.Repeat("x", shift) + strings.Repeat("😀", 40<<10)
		if _, err := c.Pump(within(t, patience), id, 0, deltas(text), nil); err != nil {
			t.Fatal(err)
		}
		got := slices.Collect(strings.SplitSeq(textOf(t, c, id), "\ufffd"))
		if len(got) != 1 || got[0] != text {
			t.Errorf("shifted by %d: the text was damaged in %d places", shift, len(got)-1)
		}
	}
}
