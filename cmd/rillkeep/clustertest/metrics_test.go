package clustertest

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
)

// metric is the sum of a node's metrics of that name; 0 if it does not say.
func (n *node) metric(name string) (sum float64) {
	n.c.Helper()
	a := n.ask(http.MethodGet, "/metrics", "", n.header...)
	if a.status != http.StatusOK {
		n.c.Fatalf("metrics: %d", a.status)
	}
	for lines := bufio.NewScanner(strings.NewReader(a.body)); lines.Scan(); {
		full, value, _ := strings.Cut(lines.Text(), " ")
		if base, _, _ := strings.Cut(full, "{"); base == name {
			v, err := strconv.ParseFloat(value[strings.LastIndexByte(value, ' ')+1:], 64)
			if err != nil {
				n.c.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}
