package plane

import (
	"strings"
	"unicode/utf8"
)

// given is the text that a reader was given so far: what a repeat is compared
// with and the next chunk is added to. Its text is valid: half of a surrogate
// pair, which no stream of ours sends, waits for its mate outside.
type given struct {
	text text
	in   intake
}

// end is the offset at which the text ends.
func (g *given) end() int64 { return g.text.end() + g.in.units() }

// add takes what a chunk holds beyond the end. The chunk leaves no gap.
func (g *given) add(chunk Frame) {
	s := dropUnits(chunk.Text, chunk.Seq-chunk.From, g.end()-chunk.From)
	if g.in.held == "" && utf8.ValidString(s) {
		g.text.append(s, chunk.Seq-g.text.end())
		return
	}
	s = g.in.accept(decodeHalves(encodeHalves(s)))
	g.text.append(s, Units(s))
}

// agrees reports whether a chunk that leaves no gap says what was given, as far
// as both reach and the text is still held.
func (g *given) agrees(chunk Frame) bool {
	start, end := max(chunk.From, g.text.base), min(chunk.Seq, g.end())
	if start >= end {
		return true
	}
	whole := g.text.floor(min(start, g.text.end()))
	upTo := g.text.floor(min(end, g.text.end()))
	if whole == chunk.From && upTo == end && strings.HasPrefix(chunk.Text, g.text.slice(whole, upTo)) {
		return true
	}
	return g.agreesHalves(chunk, start, end)
}

// agreesHalves compares from start to end unit by unit.
func (g *given) agreesHalves(chunk Frame, start, end int64) bool {
	whole := g.text.floor(min(start, g.text.end()))
	had := encodeHalves(g.text.slice(whole, g.text.end()) + g.in.held)[start-whole : end-whole]
	says := encodeHalves(chunk.Text)[start-chunk.From : end-chunk.From]
	for i := range had {
		if !sameUnit(had[i], says[i]) {
			return false
		}
	}
	return true
}

// rewind forgets what lies at to and beyond.
func (g *given) rewind(to int64) {
	kept := text{base: min(to, g.text.base)}
	if to > kept.base {
		s := g.text.slice(kept.base, g.text.floor(min(to, g.text.end())))
		kept.append(s, Units(s))
	}
	*g = given{text: kept}
}

// trim keeps the last half of most units, once there are more than most.
func (g *given) trim(most int64) {
	if g.text.units <= most {
		return
	}
	end := g.text.end()
	base := g.text.floor(end - most/2)
	s := g.text.slice(base, end)
	g.text = text{base: base, buf: make([]byte, 0, 5*len(s)/2)}
	g.text.append(s, end-base)
}

// dropUnits returns s, which has the given length, without its first n units.
func dropUnits(s string, units, n int64) string {
	switch {
	case n == 0:
		return s
	case units == int64(len(s)): // one unit a byte
		return s[n:]
	default:
		return decodeHalves(encodeHalves(s)[n:])
	}
}
