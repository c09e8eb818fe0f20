package ringtest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/ring/ringtest"
)

const (
	one = "10.0.0.1"
	two = "10.0.0.2"
)

// pair is a stream between two hosts.
type pair struct {
	net       *ringtest.Network
	a, b      *ringtest.Host
	near, far net.Conn
}

func connected(t *testing.T, options ringtest.Options, test func(t *testing.T, p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := ringtest.New(options)
		p := &pair{net: n, a: n.Host(one), b: n.Host(two)}
		l, err := p.b.Listen(80)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		if p.near, err = p.a.Dial(t.Context(), "tcp", two+":80"); err != nil {
			t.Fatal(err)
		}
		if p.far, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		test(t, p)
		_ = p.near.Close()
		_ = p.far.Close()
	})
}

// arrives sends text one way and answers how long it took to be read.
func arrives(t *testing.T, from, to net.Conn, text string) time.Duration {
	t.Helper()
	begin := time.Now()
	if _, err := io.WriteString(from, text); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(text))
	if _, err := io.ReadFull(to, b); err != nil || string(b) != text {
		t.Fatalf("read %q, error %v", b, err)
	}
	return time.Since(begin)
}

func TestBytesTakeTheLatency(t *testing.T) {
	connected(t, ringtest.Options{Latency: 20 * time.Millisecond}, func(t *testing.T, p *pair) {
		for range 3 {
			if took := arrives(t, p.near, p.far, "hello"); took != 20*time.Millisecond {
				t.Errorf("took %v", took)
			}
		}
	})
}

func TestWhatIsWrittenDuringACutArrivesWhenItIsHealed(t *testing.T) {
	connected(t, ringtest.Options{}, func(t *testing.T, p *pair) {
		p.net.CutOneWay([]string{one}, []string{two})
		time.AfterFunc(time.Minute, p.net.Heal)
		arrives(t, p.far, p.near, "the other way is open")
		if took := arrives(t, p.near, p.far, "hello"); took != time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

func TestAFrozenHostReadsAndSendsNothing(t *testing.T) {
	connected(t, ringtest.Options{}, func(t *testing.T, p *pair) {
		p.b.Freeze()
		time.AfterFunc(time.Minute, p.b.Thaw)
		if took := arrives(t, p.near, p.far, "hello"); took != time.Minute {
			t.Errorf("to it took %v", took)
		}
		p.b.Freeze()
		time.AfterFunc(time.Minute, p.b.Thaw)
		if took := arrives(t, p.far, p.near, "hello"); took != time.Minute {
			t.Errorf("from it took %v", took)
		}
	})
}

func TestAWriterIsBoundByTheWindow(t *testing.T) {
	connected(t, ringtest.Options{}, func(t *testing.T, p *pair) {
		_ = p.near.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := p.near.Write(make([]byte, 64<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n > 1<<20 {
			t.Errorf("%d bytes, error %v", n, err)
		}
	})
}

func TestAKilledHostResetsItsStreamsAndRefusesNewOnes(t *testing.T) {
	connected(t, ringtest.Options{}, func(t *testing.T, p *pair) {
		p.b.Kill()
		if _, err := p.near.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v", err)
		}
		if _, err := p.a.Dial(t.Context(), "tcp", two+":80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial: %v", err)
		}
	})
}

func TestACrashedHostIsSilent(t *testing.T) {
	connected(t, ringtest.Options{}, func(t *testing.T, p *pair) {
		p.b.Crash()
		_ = p.near.SetDeadline(time.Now().Add(time.Minute))
		if _, err := p.near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var timeout net.Error
		if _, err := p.a.Dial(ctx, "tcp", two+":80"); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("dial: %v", err)
		}
	})
}

func TestACloseIsReadAfterWhatWasWritten(t *testing.T) {
	connected(t, ringtest.Options{Latency: time.Millisecond}, func(t *testing.T, p *pair) {
		_, _ = io.WriteString(p.near, "last words")
		_ = p.near.Close()
		if b, err := io.ReadAll(p.far); string(b) != "last words" || err != nil {
			t.Errorf("read %q, error %v", b, err)
		}
		if _, err := p.far.Write([]byte("late")); err == nil {
			t.Error("wrote to who closed")
		}
	})
}

func TestPacketsAreLostButNeverWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := ringtest.New(ringtest.Options{Loss: 0.5, Seed: 1})
		from, err := n.Host(one).Transport(7946)
		if err != nil {
			t.Fatal(err)
		}
		to, err := n.Host(two).Transport(7946)
		if err != nil {
			t.Fatal(err)
		}
		const sent = 100_000 // nobody receives: all but the first are dropped
		for range sent {
			if _, err := from.WriteTo([]byte("x"), to.Addr()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		got := 0
		for wait := time.After(time.Second); ; {
			select {
			case <-to.PacketCh():
				got++
				continue
			case <-wait:
			}
			break
		}
		if got == 0 || got > 5000 {
			t.Errorf("%d packets arrived", got)
		}
		_, _ = from.Shutdown(), to.Shutdown()
	})
}

func TestHTTPWorksOverStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := ringtest.New(ringtest.Options{Latency: time.Millisecond})
		l, err := n.Host(two).Listen(80)
		if err != nil {
			t.Fatal(err)
		}
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{
			Protocols: protocols, ReadHeaderTimeout: time.Second,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Proto+" "+strings.Repeat("x", 1<<20))
			}),
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		transport := &http.Transport{DialContext: n.Host(one).Dial, Protocols: protocols}
		client := &http.Client{Transport: transport}
		resp, err := client.Get("http://" + two + ":80/")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || len(b) != len("HTTP/2.0 ")+1<<20 || !strings.HasPrefix(string(b), "HTTP/2.0 ") {
			t.Errorf("%d bytes, error %v", len(b), err)
		}
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
		_ = server.Close()
		<-served
	})
}
