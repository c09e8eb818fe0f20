package upstream_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/upstream"
)

// outcome is all that comes of a response.
type outcome struct {
	Deltas  []string
	Err     string
	Summary upstream.Summary
	err     error
}

func (o outcome) text() string { return strings.Join(o.Deltas, "") }

func take(t testing.TB, r io.Reader, format upstream.Format, opts upstream.Options) outcome {
	t.Helper()
	var o outcome
	opts.Summary = &o.Summary
	for delta, err := range upstream.Deltas(t.Context(), r, format, opts) {
		switch {
		case o.err != nil:
			t.Fatalf("%q, %v after the error %v", delta, err, o.err)
		case err != nil:
			o.err, o.Err = err, err.Error()
		case delta == "":
			t.Fatal("an empty delta")
		}
		if delta != "" {
			o.Deltas = append(o.Deltas, delta)
		}
	}
	return o
}

// pieces is a reader that ends a read at each of the cuts.
type pieces struct {
	data []byte
	at   int
	cuts []int // ascending
}

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.cuts) > 0 && p.cuts[0] <= p.at {
		p.cuts = p.cuts[1:]
	}
	to := len(p.data)
	if len(p.cuts) > 0 {
		to = min(to, p.cuts[0])
	}
	if p.at == len(p.data) {
		return 0, io.EOF
	}
	n := copy(b, p.data[p.at:to])
	p.at += n
	return n, nil
}

// randomCuts cuts n bytes into some 20 pieces.
func randomCuts(n int, seed uint64) []int {
	rng := rand.New(rand.NewPCG(seed, 1))
	var cuts []int
	for range min(n, 20) {
		cuts = append(cuts, rng.IntN(n))
	}
	slices.Sort(cuts)
	return cuts
}

// replay takes body as the reads of a network might bring it, and fails the
// test if that makes a difference. Where deltas are reads, only their text is
// compared.
func replay(t *testing.T, body []byte, format upstream.Format, opts upstream.Options, cuts ...[]int) outcome {
	t.Helper()
	want := take(t, bytes.NewReader(body), format, opts)
	check := func(how string, r io.Reader) {
		t.Helper()
		got := take(t, r, format, opts)
		a, b := want, got
		if format == upstream.Text {
			a.Deltas, b.Deltas = []string{a.text()}, []string{b.text()}
			a.Summary.Events, b.Summary.Events = 0, 0
		}
		if diff := cmp.Diff(a, b, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".err" }, cmp.Ignore())); diff != "" {
			t.Fatalf("%s (-whole +this):\n%s", how, diff)
		}
	}
	check("byte by byte", iotest.OneByteReader(bytes.NewReader(body)))
	check("with data and EOF together", iotest.DataErrReader(bytes.NewReader(body)))
	for seed := range uint64(5) {
		cuts = append(cuts, randomCuts(len(body), seed))
	}
	for _, c := range cuts {
		check(fmt.Sprint("cut at ", c), &pieces{data: body, cuts: c})
	}
	return want
}

func load(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(name, ".gz") {
		return data
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(zip); err != nil {
		t.Fatal(err)
	}
	return data
}

// valid returns text as the producer's door makes it: halves that meet become
// their character, NUL and what is left alone become U+FFFD.
func valid(text string) string {
	var units []uint16
	for len(text) > 0 {
		if r, size := utf8.DecodeRuneInString(text); r != utf8.RuneError || size != 1 {
			units = utf16.AppendRune(units, r)
			text = text[size:]
			continue
		}
		for r := rune(0xD800); r <= 0xDFFF; r++ {
			if half := string(plane.AppendWTF8(nil, r)); strings.HasPrefix(text, half) {
				units = append(units, uint16(r))
				text = text[len(half):]
				break
			}
		}
	}
	return strings.ReplaceAll(string(utf16.Decode(units)), "\x00", "\uFFFD")
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
