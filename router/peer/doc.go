// Package peer carries HTTP requests between the members of a cluster: HTTP/2
// on a listener of its own, one connection to each peer, both ends authenticated.
//
// A [Client] signs what it sends with a key made of the cluster secret; a
// [Server] lets nothing else reach its handler, and signs what it answers, so
// that whoever took over an address is not taken for its former owner. With
// certificates ([TLS]) the connection is authenticated too, or instead.
//
// What is signed: method, request URI, the names of both ends, a stamp that is
// good once, and every header whose name begins with [Prefix]; of an answer its
// status and the same headers, bound to the very request. Bodies are not: who
// must hide or protect them on the wire uses TLS.
//
// The package knows nothing of routes or streams.
package peer
