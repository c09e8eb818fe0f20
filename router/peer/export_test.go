package peer

// Unreachable says whether requests to the peer of that name fail at once at
// present, but for a probe now and then, because one failed lately.
func (c *Client) Unreachable(name string) bool {
	c.mu.Lock()
	l := c.links[name]
	c.mu.Unlock()
	return l != nil && l.isDown()
}
