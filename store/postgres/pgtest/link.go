package pgtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Codes that a client's first message has in place of a protocol version.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// maxMessage bounds a message, so that what is none fails.
const maxMessage = 1 << 30

// link is one connection through a proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	done           context.Context
	cut            context.CancelFunc // ends both connections
	stalled        bool               // guarded by the proxy's mu
	swallow        atomic.Bool        // the answer goes nowhere, and ends the link

	statements map[string]string // SQL of what the client prepared
}

// run carries bytes until either side ends.
func (l *link) run() {
	defer l.client.Close()
	defer context.AfterFunc(l.done, func() { l.client.Close() })()
	defer l.cut()
	if l.done.Err() != nil || l.startup() != nil {
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		defer l.cut()
		_ = l.answers()
	})
	_ = l.requests()
	l.cut()
	answers.Wait()
}

// startup dials the server and passes on the client's first message.
func (l *link) startup() error {
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(l.client, head); err != nil {
			return err
		}
		length, code := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		if code == sslRequest || code == gssRequest {
			if _, err := l.client.Write([]byte("N")); err != nil {
				return err
			}
			continue
		}
		if length < 8 || length > maxMessage {
			return fmt.Errorf("a first message of %d bytes", length)
		}
		first := append(head, make([]byte, length-8)...)
		if _, err := io.ReadFull(l.client, first[8:]); err != nil {
			return err
		}
		if err := l.pass(); err != nil {
			return err
		}
		server, err := new(net.Dialer).DialContext(l.done, l.proxy.network, l.proxy.address)
		if err != nil {
			return err
		}
		l.server = server
		context.AfterFunc(l.done, func() { server.Close() })
		if _, err := server.Write(first); err != nil {
			return err
		}
		if code == cancelRequest {
			_, _ = io.Copy(io.Discard, server) // until it has closed
			return io.EOF
		}
		return nil
	}
}

// requests passes on what the client sends, one request at a time: all messages
// up to a Sync are one.
func (l *link) requests() error {
	var request []byte
	var sql []string
	executes := false
	for {
		kind, message, err := read(l.client)
		if err != nil {
			return err
		}
		request = append(request, message...)
		fields := bytes.SplitN(message[5:], []byte{0}, 3)
		switch kind {
		case 'P': // parse: name, SQL
			l.statements[string(fields[0])] = string(fields[1])
			continue
		case 'B': // bind: portal, name of the statement
			sql = append(sql, l.statements[string(fields[1])])
			continue
		case 'E': // execute
			executes = true
			continue
		case 'D', 'C': // describe, close
			continue
		case 'Q': // simple query
			sql, executes = append(sql, string(fields[0])), true
		}
		if err := l.request(request, strings.Join(sql, ";\n"), executes); err != nil {
			return err
		}
		request, sql, executes = request[:0], sql[:0], false
	}
}

// request passes on one request, or does to it what a rule says.
func (l *link) request(request []byte, sql string, executes bool) error {
	stall := false
	if executes {
		l.proxy.mu.Lock()
		delay := time.NewTimer(l.proxy.delay)
		l.proxy.mu.Unlock()
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-l.done.Done():
			return l.done.Err()
		}
		if found, fault := l.proxy.fault(sql); found {
			switch fault {
			case CutBefore:
				return io.ErrClosedPipe
			case CutAfter:
				l.swallow.Store(true)
			case Stall:
				stall = true
			}
		}
	}
	if err := l.pass(); err != nil {
		return err
	}
	if stall { // before an answer can come
		l.stall()
	}
	_, err := l.server.Write(request)
	return err
}

// answers passes on what the server sends.
func (l *link) answers() error {
	for {
		kind, message, err := read(l.server)
		if err != nil {
			return err
		}
		if l.swallow.Load() {
			if kind == 'Z' { // ready for the next request: this one is done
				return io.ErrClosedPipe
			}
			continue
		}
		if err := l.pass(); err != nil {
			return err
		}
		if _, err := l.client.Write(message); err != nil {
			return err
		}
	}
}

// read answers one message with its header.
func read(from io.Reader) (kind byte, message []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > maxMessage {
		return 0, nil, fmt.Errorf("a message of %d bytes", length)
	}
	message = append(head[:], make([]byte, length-4)...)
	_, err = io.ReadFull(from, message[5:])
	return head[0], message, err
}

func (l *link) stall() {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.stalled = true
}

// pass returns when nothing holds back the link.
func (l *link) pass() error {
	for {
		l.proxy.mu.Lock()
		held, thaw := l.proxy.frozen || l.stalled, l.proxy.thaw
		l.proxy.mu.Unlock()
		if !held {
			return l.done.Err()
		}
		select {
		case <-thaw:
		case <-l.done.Done():
			return l.done.Err()
		}
	}
}
