// Package wire is what the HTTP API says: the bodies of its requests and
// answers, and its error codes. The server writes them and the Go client reads
// them, so that an error keeps its identity across a hop: what was
// plane.ErrConflict on the node is plane.ErrConflict to errors.Is in the client.
package wire
