// Package clustertest tests clusters of real processes: rillkeep serve and
// rillkeep dev, with a real PostgreSQL, real sockets and real signals.
package clustertest
