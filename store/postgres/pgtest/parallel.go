package pgtest

import (
	"flag"
	"fmt"
	"strconv"
)

// AtOnce makes so many of a package's parallel tests run at once, unless the
// command line says how many: what waits has no use for a processor. It is for
// TestMain.
func AtOnce(tests int) {
	flag.Parse()
	const parallel = "test.parallel"
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == parallel })
	if said {
		return
	}
	if err := flag.Set(parallel, strconv.Itoa(tests)); err != nil {
		panic(fmt.Sprintf("set -%s: %v", parallel, err))
	}
}
