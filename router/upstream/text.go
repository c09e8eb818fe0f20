package upstream

import (
	"io"
	"unicode/utf8"
)

// readText reads a body that is the text. A character that two reads share is
// handed on whole; bytes that make no character are handed on as they are.
func (in *intake) readText(r io.Reader) error {
	buf := make([]byte, 32<<10)
	held := 0 // bytes at the start of buf that begin a character
	for idle := 0; !in.over(); {
		n, err := r.Read(buf[held:])
		have := buf[:held+n]
		held = 0
		if err == nil {
			held = unfinished(have)
		}
		if n > 0 {
			in.sum.Events++
			idle = 0
		} else if idle++; idle == 100 && err == nil {
			err = io.ErrNoProgress
		}
		in.emit(string(have[:len(have)-held]))
		copy(buf, have[len(have)-held:])
		switch {
		case err == nil:
		case err != io.EOF:
			return truncated(err)
		case !in.text:
			return ErrEmpty
		default:
			return nil
		}
	}
	return in.stop()
}

// unfinished returns how many bytes at the end of b begin a character that
// more bytes could complete.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
