package peer

import "context"

// Unreachable says whether requests to the peer of that name fail at once at
// present, but for a probe now and then, because one failed lately.
func (c *Client) Unreachable(name string) bool {
	c.mu.Lock()
	l := c.links[name]
	c.mu.Unlock()
	return l != nil && l.isDown()
}

// Goodbye takes no more requests and waits for those under way, as servers of
// HTTP/2 do that end in good order, until ctx ends.
func (s *Server) Goodbye(ctx context.Context) error { return s.http.Shutdown(ctx) }
