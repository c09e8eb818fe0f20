package router

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// until is how long a pause lasts.
func until(rest <-chan struct{}) time.Duration {
	began := time.Now()
	<-rest
	return time.Since(began)
}

func TestWhenAFollowerLooksAgain(t *testing.T) {
	const longest = time.Minute
	for name, c := range map[string]struct {
		during func(*watches) // of the look, which takes 20 ms
		after  func(*watches) // 10 s later
		want   time.Duration
	}{
		"without news":                  {nil, nil, longest},
		"told while it waits":           {nil, func(ws *watches) { ws.wake("s") }, 10 * time.Second},
		"told during its look":          {func(ws *watches) { ws.wake("s") }, nil, 30 * time.Millisecond},
		"told of another stream":        {func(ws *watches) { ws.wake("t") }, func(ws *watches) { ws.wake("t") }, longest},
		"told twice":                    {nil, func(ws *watches) { ws.wake("s"); ws.wake("s") }, 10 * time.Second},
		"told and not told all at once": {nil, func(ws *watches) { ws.wakeAll(); ws.wake("s"); ws.wakeAll() }, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ws watches
				w := ws.add("s")
				w.look()
				time.Sleep(20 * time.Millisecond)
				if c.during != nil {
					c.during(&ws)
				}
				rest := w.pause(longest)
				if c.after != nil {
					time.AfterFunc(10*time.Second, func() { c.after(&ws) })
				}
				if got := until(rest); got != c.want {
					t.Errorf("after %v, not %v", got, c.want)
				}
				ws.remove("s", w)
			})
		})
	}
}

func TestAFollowerOfAFastStreamLooksSoOftenAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ws watches
		w := ws.add("s")
		stop := make(chan struct{})
		var fast sync.WaitGroup
		fast.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					ws.wake("s")
				}
			}
		})
		looks := 0
		for began := time.Now(); time.Since(began) < 10*time.Second; looks++ {
			w.look()
			<-w.pause(time.Hour)
		}
		close(stop)
		fast.Wait()
		if looks < 195 || looks > 201 {
			t.Errorf("%d looks in 10 s", looks)
		}
		ws.remove("s", w)
	})
}

// However often something is missed, each follower looks again within a second.
func TestAfterAGapAllLookAgainWithinASecondAndNotAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ws watches
		const followers = 1000
		var mu sync.Mutex
		var looks []time.Duration
		var all sync.WaitGroup
		began := time.Now()
		for n := range followers {
			id := fmt.Sprint("s", n%10)
			w := ws.add(id)
			rest := w.pause(time.Hour)
			all.Go(func() {
				<-rest
				mu.Lock()
				defer mu.Unlock()
				looks = append(looks, time.Since(began))
				ws.remove(id, w)
			})
		}
		for range 50 {
			ws.wakeAll()
			time.Sleep(20 * time.Millisecond)
		}
		all.Wait()
		early := 0
		for _, after := range looks {
			if after > time.Second {
				t.Fatalf("one looked after %v", after)
			}
			if after < 10*time.Millisecond {
				early++
			}
		}
		if early > followers/10 {
			t.Errorf("%d looked at once", early)
		}
		if len(ws.of) != 0 {
			t.Errorf("%d streams are left", len(ws.of))
		}
	})
}

func BenchmarkWake(b *testing.B) {
	var ws watches
	for n := range 10_000 {
		ws.add(fmt.Sprint("other", n)).pause(time.Hour)
	}
	b.ReportAllocs()
	for b.Loop() {
		ws.wake("s")
	}
}
