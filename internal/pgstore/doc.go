// Package pgstore is the exact tier in Postgres: which keys of a crawl must
// never be dropped, where each of them is, and records as rows.
//
// A Store is an exact.Set that any number of processes share. Postgres decides:
// of all callers who race on a key the one whose insert returns it owns it. The
// tables are those of schema "crawler", four for each crawl, and named by its
// number: crawls share no table that a statement of the crawl writes, so that
// one can be made or dropped while others go on. docs/reference/postgres.md has the
// schema, what a million keys cost, and SQL for operators.
//
// # Locks
//
// Whatever waits for rows takes them in one order: keys by fingerprint, then
// what belongs to them, then records. What cannot keep to it waits for nobody
// (SKIP LOCKED). So there is no deadlock among any number of workers.
//
// A statement sees the moment at which it began. Where that is too early,
// because it waited for another's lock, the work is two statements of one
// transaction: the first takes the locks, the second sees what is behind them,
// and touches only what the first locked.
//
// # Failures
//
// What passes by itself is asked again, a few times within seconds; then the
// error is a frontier.ErrUnavailable. All calls are safe to repeat: a Decide
// whose answer was lost leaves its keys pending, and a relay finds them. No
// error names a password.
//
// The package queues nothing, and it does not say which keys are exact (package
// exact does both).
package pgstore
