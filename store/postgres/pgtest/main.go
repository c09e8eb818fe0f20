package pgtest

import (
	"flag"
	"fmt"
	"strconv"
	"testing"
)

// Main runs a package's tests, so many of the parallel ones at once, unless the
// command line says how many: what waits for a server has no use for a processor.
func Main(m *testing.M, atOnce int) {
	flag.Parse()
	const parallel = "test.parallel"
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == parallel })
	if !said {
		if err := flag.Set(parallel, strconv.Itoa(atOnce)); err != nil {
			panic(fmt.Sprintf("set -%s: %v", parallel, err))
		}
	}
	m.Run()
}
