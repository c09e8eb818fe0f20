package plane_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
)

func TestAReaderGoesBackToWhereTheFirstEpochBeganThatItDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		origins              plane.Origins
		from, epoch, current int64
		want                 int64
	}{
		"of the current epoch":                  {plane.Origins{5}, 9, 2, 2, 9},
		"of no known epoch":                     {plane.Origins{5}, 9, 0, 2, 9},
		"of a later epoch":                      {plane.Origins{5}, 9, 3, 2, 9},
		"beyond the origin":                     {plane.Origins{5}, 9, 1, 2, 5},
		"at the origin":                         {plane.Origins{5}, 5, 1, 2, 5},
		"below the origin":                      {plane.Origins{5}, 3, 1, 2, 3},
		"two epochs ago":                        {plane.Origins{5, 8}, 9, 1, 3, 5},
		"one epoch ago":                         {plane.Origins{5, 8}, 9, 2, 3, 8},
		"from before what is known":             {plane.Origins{5, 8}, 9, 1, 4, 0},
		"of an epoch that began with an open":   {nil, 9, 1, 2, 0},
		"where a store has gone back meanwhile": {plane.Origins{8, 5}, 9, 1, 3, 5},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.origins.Rewind(c.from, c.epoch, c.current); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestATokenHasTheOriginsOfTheNewestEpochs(t *testing.T) {
	var o plane.Origins
	for n := range int64(plane.MaxOrigins + 3) {
		row := plane.Row{Token: plane.MakeToken("n/1", n+1, o)}
		if diff := cmp.Diff(o, row.Origins()); diff != "" {
			t.Errorf("%s: %s", row.Token, diff)
		}
		before := fmt.Sprint(o)
		next := o.Begin(n * 10)
		if fmt.Sprint(o) != before {
			t.Errorf("%v was changed", before)
		}
		o = next
	}
	if len(o) != plane.MaxOrigins || o[0] != 30 {
		t.Errorf("the origins are %v", o)
	}
	for _, token := range []string{"", "n/1", "n/1/2", "n/1/2/", "n/1/2/x", "n/1/2/-1", "n/1/2/3,", "n/1/2/3/4"} {
		if got := (plane.Row{Token: token}).Origins(); got != nil {
			t.Errorf("%q has %v", token, got)
		}
	}
	if got := (plane.Row{Token: "/1700.3/2/7"}).Origins(); !cmp.Equal(got, plane.Origins{7}) {
		t.Errorf("a mark has %v", got)
	}
}

func TestAProducerEpochIsReadAsItIsWritten(t *testing.T) {
	for _, p := range []plane.ProducerEpoch{{1, 1}, {2, 17}, {1 << 40, 1 << 62}} {
		if got, err := plane.ParseProducerEpoch(p.String()); got != p || err != nil {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	for _, s := range []string{"", "1", "1.", ".1", "0.1", "1.0", "-1.1", "1.1.1", "1.x", "9223372036854775808.1", " 1.1", "+1.1"} {
		if got, err := plane.ParseProducerEpoch(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}
