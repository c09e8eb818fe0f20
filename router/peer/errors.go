package peer

import "errors"

// What a caller of [Client.Do] can act on. Every error of a request that was
// fit to be sent matches exactly one of them.
var (
	// ErrUnreachable: nothing was delivered. The request may be repeated, here
	// later or elsewhere at once.
	ErrUnreachable = errors.New("peer cannot be reached")
	// ErrBroken: the request or a part of it may have been delivered. It is what
	// reading an answer's body ends with, too, if the answer is cut or falls silent.
	ErrBroken = errors.New("exchange with the peer broke off")
	// ErrNotPeer: who answers at the address is not the member that was asked for.
	ErrNotPeer = errors.New("another answers at the peer's address")
	// ErrDenied: the peer refuses this member; as a rule their secrets differ.
	ErrDenied = errors.New("peer refuses this member")
	// ErrLoop: the request has come through as many members as it may.
	ErrLoop = errors.New("request goes round between members")
)
