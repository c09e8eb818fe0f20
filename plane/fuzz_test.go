package plane

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// fuzzSeeds are texts that have been trouble somewhere, and ways to cut them.
var fuzzSeeds = []struct {
	raw  string
	cuts []byte
}{
	{"", nil},
	{"plain text", []byte{3, 3}},
	{"a" + high + low + "b", []byte{4}},
	{"a" + high + low + "b", []byte{1, 1, 1, 1, 1, 1, 1}},
	{"😀", []byte{1, 1, 1}},
	{high + high + low + low, []byte{2, 2, 2, 2}},
	{high + "\xED\x9F\xBF", []byte{4}},
	{"x\x00y\xFF\xC0\x80", []byte{2, 1}},
	{"\xF0\x9F\x98a\xE6\xBC", []byte{3}},
	{"\uFFFD\uFEFF\u2028", []byte{2}},
}

// cutInto cuts s into deltas of the sizes given; the rest is the last.
func cutInto(s string, sizes []byte) []string {
	var deltas []string
	for _, n := range sizes {
		n := min(int(n), len(s))
		deltas, s = append(deltas, s[:n]), s[n:]
	}
	return append(deltas, s)
}

func FuzzIntake(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s.raw, s.cuts)
	}
	f.Fuzz(func(t *testing.T, raw string, cuts []byte) {
		checkIntake(t, raw, cutInto(raw, cuts))
	})
}

func FuzzText(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s.raw, s.cuts, uint16(300), uint32(7))
	}
	f.Fuzz(func(t *testing.T, raw string, cuts []byte, repeat uint16, trim uint32) {
		if len(raw)*int(repeat) > 1<<16 {
			t.Skip("no new ground in longer text")
		}
		var x text
		var in intake
		var s slowText
		for range int(repeat) {
			for _, d := range cutInto(raw, cuts) {
				piece := in.accept(d)
				x.append(piece, Units(piece))
				s.units = append(s.units, UnitsOf(piece)...)
			}
			if trim > 0 && len(s.units) > int(trim) {
				s.floor = s.start(int64(len(s.units)) - int64(trim))
				x.trim(s.floor)
			}
		}
		checkMarks(t, &x)
		step := max(1, (int64(len(s.units))-s.floor)/50)
		for off := s.floor; off <= int64(len(s.units)); off += step {
			s.agree(t, &x, off, min(off+step*3/2, int64(len(s.units))))
		}
	})
}

// FuzzPushAt is a producer that says where each delta starts, repeats itself,
// leaves gaps and contradicts itself; the oracle keeps what was received.
func FuzzPushAt(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s.raw, s.cuts, []byte{0, 1, 200, 3})
	}
	f.Add("ab"+high+low+"cd", []byte{3, 3, 3}, []byte{0, 0, 1, 2, 0})
	f.Fuzz(func(t *testing.T, raw string, cuts, back []byte) {
		s, err := Open(context.Background(), Config{
			Commit: func(context.Context, Change) (Answer, error) { return Answer{}, nil },
		}, Claim{ID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Abandon(context.Background())
		var sent []uint16 // as the producer counts
		sending := RawUnits(raw)
		for i, size := range cuts {
			from := int64(len(sent))
			if i < len(back) {
				from -= int64(int8(back[i]))
			}
			to := min(max(int64(0), from)+int64(size), int64(len(sending)))
			delta := slices.Clone(sending[min(max(0, from), to):to])
			if len(delta) > 0 && size > 128 {
				delta[int(size)%len(delta)] = 'ß'
			}
			want := pushAtWant(sent, from, delta)
			err := s.PushAt(context.Background(), from, Encode(delta, size%2 == 0))
			if !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Fatalf("PushAt(%d, %x) after %x: %v, want %v", from, delta, sent, err, want)
			}
			if err == nil && from+int64(len(delta)) > int64(len(sent)) {
				sent = append(sent, delta[int64(len(sent))-from:]...)
			}
			if got := s.State().Received; got != int64(len(sent)) {
				t.Fatalf("received %d, want %d", got, len(sent))
			}
		}
		if _, err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		got, _, _ := s.Snapshot()
		if want := Encode(Valid(sent), true); got != want {
			t.Fatalf("the text is %q, want %q", got, want)
		}
	})
}

// pushAtWant is what an append of delta at from is answered.
func pushAtWant(sent []uint16, from int64, delta []uint16) error {
	switch {
	case from > int64(len(sent)):
		return ErrGap
	case from < 0:
		return ErrConflict
	}
	for i, unit := range delta[:min(int64(len(delta)), int64(len(sent))-from)] {
		if unit != sent[from+int64(i)] {
			return ErrConflict
		}
	}
	return nil
}
