// Package ring knows which nodes form the cluster and which of them a stream
// should be opened on.
//
// Membership is [hashicorp/memberlist]: SWIM gossip with the suspicion of
// Lifeguard, always encrypted. What it leaves open is done here: peers that are
// missing are joined again for ever, since a partition that lasts longer than
// some ten seconds does not heal by itself; nothing is read from memberlist's
// own structures, which are not safe to read: its callbacks copy what they are
// told, and one goroutine makes a [View] of it.
//
// Ownership is the consistent hashing with bounded loads of
// [buraksezer/consistent] v1.0.0 (Mirrokni, Thorup, Zadimoghaddam: "Consistent
// Hashing with Bounded Loads"): a [Table], a pure function of the set of active
// members' names. The table is filled by a loop of our own that takes a tenth of
// the time; a ring that opens compares it with the library's, and the tests
// compare the two over many random sets.
//
// A ring is advice. Two nodes may hold different views for a while, and a node
// that was paused cannot tell that it was declared dead: who may write to a
// stream is decided by the stream's row alone.
//
// # Names
//
// A member is one process. Its name is node/incarnation, unique to the process, so
// that a process that was thought dead can't be taken for its successor, and a
// restart is never in conflict with the dead. A node name belongs to one living
// process: one that joins asks the other incarnations of its node that the
// cluster still lists. If one answers, the name is taken and Open fails with
// [ErrNameTaken]; those that don't answer are named in the newcomer's metadata as
// replaced, and every member leaves them out of its table from the moment the
// newcomer is active, without waiting for gossip to notice their death. No clock
// is compared. Should two islands that each have a process of that name meet, both
// stay in the table, for they are two members, and both say so in their logs and
// [Stats]; the store's lock on the name is what forbids it.
//
// # Refusals
//
// A node with another secret, another cluster's name or other ring settings is
// kept out, by the cluster and by itself. Open fails if no seed took it in and one
// refused it. Afterwards a refusal is logged, once a minute at most, and counted.
//
// [hashicorp/memberlist]: https://github.com/hashicorp/memberlist
// [buraksezer/consistent]: https://github.com/buraksezer/consistent
package ring
