package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// readLines reads NDJSON. A last line without its LF counts if it is whole:
// JSON shows by itself where it ends.
func (in *intake) readLines(r io.Reader) error {
	br := bufio.NewReader(r)
	var buf []byte
	for begin := true; !in.over(); begin = false {
		line, err := readLine(br, buf[:0], in.maxLine)
		if errors.Is(err, ErrTooLong) {
			return err
		}
		if buf = line; cap(buf) > keepLine {
			buf = nil
		}
		if begin {
			line = bytes.TrimPrefix(line, []byte(bom))
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			in.sum.Events++
			if err != nil && isCut(line) {
				return truncated(err)
			}
			if err := in.line(line); err != nil {
				return err
			}
		}
		if err != nil {
			return in.endOfLines(err)
		}
	}
	return in.stop()
}

// isCut reports whether line is the beginning of something that JSON could be.
func isCut(line []byte) bool {
	var v json.RawMessage
	return json.NewDecoder(bytes.NewReader(line)).Decode(&v) == io.ErrUnexpectedEOF
}

// endOfLines says what it means that the lines ended with err.
func (in *intake) endOfLines(err error) error {
	switch {
	case err != io.EOF:
		return truncated(err)
	case in.sum.Events == 0:
		return ErrEmpty
	case in.sum.Events == in.sum.Skipped:
		return &DataError{What: "has no line with text"}
	default:
		return nil
	}
}

// line takes one line: {"text":"…"}, "…", or an error.
func (in *intake) line(line []byte) error {
	if text, ok := plainLine(line); ok {
		in.emit(text)
		return nil
	}
	switch {
	case !json.Valid(line):
		return in.malformed("is not JSON")
	case line[0] == '"':
		text, _ := str(line)
		in.emit(text)
		return nil
	case line[0] != '{':
		return in.malformed("is not a JSON object or string")
	}
	var v struct {
		Text  json.RawMessage `json:"text"`
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(line, &v) // it is valid, and an object
	text, ok := str(v.Text)
	in.emit(text)
	switch {
	case reported(v.Error):
		return newError(line)
	case ok:
		return nil
	case !blank(v.Text):
		return in.malformed("has a text that is no string")
	default:
		in.sum.Skipped++
		return nil
	}
}

// plainLine returns the text of a line that holds that and nothing else, as nearly
// all do: it needs no other parser. Of any other line ok is false.
func plainLine(line []byte) (text string, ok bool) {
	const before, after = `{"text":`, `}`
	if len(line) < len(before)+len(after) || string(line[:len(before)]) != before || line[len(line)-1] != after[0] {
		return "", false
	}
	return str(bytes.Trim(line[len(before):len(line)-len(after)], " \t"))
}

// keepLine is the largest buffer, in bytes, that is kept for the next line.
const keepLine = 256 << 10

// readLine appends the next line to buf, its LF included if it has one. With an
// error it returns what there was of the line.
func readLine(r *bufio.Reader, buf []byte, limit int) ([]byte, error) {
	for {
		piece, err := r.ReadSlice('\n')
		if len(buf)+len(bytes.TrimRight(piece, "\r\n")) > limit {
			return nil, tooLong(limit)
		}
		buf = append(buf, piece...)
		if err != bufio.ErrBufferFull {
			return buf, err
		}
	}
}
