package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"rillkeep.dev/rillkeep/router/wire"
)

type clusterCmd struct {
	remote
}

// Help is printed below the flags.
func (clusterCmd) Help() string {
	return `LIVE is how many streams a member has, ENDED how many more are still in its memory; a
dash, that it did not say in time. SHARE is how much of new streams it gets.

Examples:
  rillkeep cluster
  rillkeep cluster --json --server http://127.0.0.1:9090`
}

// Run prints the members.
func (c clusterCmd) Run(ctx context.Context, con *console) error {
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	cluster, err := cl.Cluster(ctx)
	if err != nil {
		return err
	}
	return c.print(con, cluster, members(cluster))
}

// members is a table.
func members(c wire.Cluster) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MEMBER\tSTATE\tSHARE\tLIVE\tENDED\tURL\tVERSION")
	for _, m := range c.Members {
		live, ended := "-", "-"
		if m.NodeCounts != nil {
			live, ended = strconv.Itoa(m.Streams), strconv.Itoa(m.Lingering)
		}
		fmt.Fprintf(table, "%s\t%s\t%.1f %%\t%s\t%s\t%s\t%s\n",
			oneLine(m.Name), oneLine(m.State), m.Share*100, live, ended, orDash(m.URL), orDash(m.Version))
	}
	_ = table.Flush() // into memory
	fmt.Fprintf(&text, "\nas %s sees it, ring %s\n", oneLine(c.Self), orDash(c.Ring))
	return text.String()
}

// orDash returns what may not be known as a cell of a table.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return oneLine(s)
}
