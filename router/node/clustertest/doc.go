// Package clustertest is the proof of the cluster: whole nodes in one process, in
// virtual time, over a network and a database in memory that a test cuts, freezes
// and heals. It has tests only.
//
// A world judges all that happens in it: each write of a row as it takes effect (P,
// O), each frame of each reader by its text (S, H), and, when the last fault is
// healed, that no row says streaming, that every reader has the text of its row (L),
// and that nothing runs on.
package clustertest
