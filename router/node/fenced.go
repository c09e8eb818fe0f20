package node

import "context"

// maxFenced is how many streams are noted whose owners are to be told.
const maxFenced = 1024

// tellOwners tells whoever has a stream, by its row, that this node had until now. As a
// rule it knows that. Not where the store went back behind a hand-over: then the row is
// the former owner's, and nobody's in fact.
func (n *Node) tellOwners() {
	for {
		select {
		case id := <-n.fenced:
			ctx, cancel := context.WithTimeout(n.base, startTimeout)
			if err := n.router.Tell(ctx, id); err != nil {
				n.log.Debug("told the owner of a stream", "streamId", id, "error", err)
			}
			cancel()
		case <-n.base.Done():
			return
		}
	}
}
