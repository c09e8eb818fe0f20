// Package auth decides what a request may do: it checks bearer tokens, answers
// what they grant, and keeps them out of logs.
//
// A token is a JWT, signed with HS256 or EdDSA (Ed25519). Beside the registered
// claims aud, exp (both required), nbf and sub it carries
//
//	ops      list of "read", "write", "cancel", "admin"; others grant nothing
//	streams  list of patterns of stream ids: exact, or with * for any run of
//	         characters, also none; "*" is every stream
//
// In a pattern \* is a star and \\ a backslash; a backslash before anything
// else is itself. An application that makes a pattern of an id it did not choose
// must escape the two, or the id "*" would stand for all.
//
// read, write and cancel hold for the streams that a pattern matches. admin is
// the listing of all streams and the view of the cluster; it does not imply the
// others and no pattern limits it.
package auth
