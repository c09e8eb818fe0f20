package ring

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"strings"
)

// journal writes to the log from where nothing may wait: what finds it full is
// dropped.
type journal struct {
	log   *slog.Logger
	lines chan line
}

type line struct {
	level slog.Level
	text  string
	attrs []slog.Attr
}

func newJournal(log *slog.Logger) *journal {
	return &journal{log: log, lines: make(chan line, 256)}
}

func (j *journal) write(level slog.Level, text string, attrs ...slog.Attr) {
	if !j.log.Enabled(context.Background(), level) {
		return
	}
	select {
	case j.lines <- line{level, text, attrs}:
	default:
	}
}

// run writes until stop, and then what is left.
func (j *journal) run(stop <-chan struct{}) {
	for {
		select {
		case l := <-j.lines:
			j.log.LogAttrs(context.Background(), l.level, l.text, l.attrs...)
			continue
		default:
		}
		select {
		case l := <-j.lines:
			j.log.LogAttrs(context.Background(), l.level, l.text, l.attrs...)
		case <-stop:
			if len(j.lines) == 0 {
				return
			}
		}
	}
}

// newLogger makes memberlist's log: lines become records of the level they begin
// with, and those that tell of strangers are counted.
func newLogger(d *delegate) *log.Logger {
	return log.New(memberlistLog{d.refused}, "", 0)
}

type memberlistLog struct{ refused *refusals }

var levels = map[string]slog.Level{
	"DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn,
	"ERR": slog.LevelError, "ERROR": slog.LevelError,
}

func (m memberlistLog) Write(b []byte) (int, error) {
	level, text := parseLine(string(b))
	switch {
	case strings.HasPrefix(text, "ignoring alive message"), strings.HasPrefix(text, "failed to join"):
		// counted where it was found
	case strings.Contains(text, "unacceptable label"):
		m.refused.note(fmt.Errorf("%w: %s", ErrCluster, text))
	case strings.Contains(text, "no installed keys could decrypt"),
		strings.Contains(text, "remote state is not encrypted"):
		m.refused.note(fmt.Errorf("%w: %s", ErrSecret, text))
	default:
		m.refused.journal.write(level, "memberlist: "+text)
	}
	return len(b), nil
}

// parseLine takes "[WARN] memberlist: text" apart.
func parseLine(s string) (slog.Level, string) {
	s = strings.TrimSpace(s)
	level := slog.LevelInfo
	if rest, ok := strings.CutPrefix(s, "["); ok {
		if name, text, ok := strings.Cut(rest, "]"); ok {
			if l, known := levels[name]; known {
				level, s = l, strings.TrimSpace(text)
			}
		}
	}
	return level, strings.TrimPrefix(s, "memberlist: ")
}
