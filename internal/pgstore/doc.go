// Package pgstore keeps the exact set of a crawl in Postgres: the keys that must
// never be dropped, the state of each, and records as rows.
//
// A Store is an exact.Set that any number of processes share. Postgres decides: of
// all callers that race on a key, the one whose insert returns it owns it. The tables
// are in the schema "crawler". Each crawl has four of its own, named by its number,
// so that one crawl can be created or dropped while others go on.
// docs/reference/postgres.md has the schema, what a million keys cost, and SQL for
// operators.
//
// # Locks
//
// A statement that waits for rows locks them in one order: keys by fingerprint, then
// what belongs to them, then records. A statement that cannot keep this order does
// not wait (SKIP LOCKED). So there is no deadlock among any number of workers.
//
// A statement sees the moment at which it began. If it waited for another's lock,
// that is too early. Such work is two statements of one transaction: the first takes
// the locks; the second sees what was committed before, and touches only what the
// first locked.
//
// # Failures
//
// A temporary error is tried again a few times within seconds. Then the error is a
// frontier.ErrUnavailable. All calls can be repeated: if the answer of a Decide was
// lost, its keys stay pending, and a relay finds them. No error contains a password.
//
// The package queues nothing, and it does not decide which keys are exact (package
// exact does both).
package pgstore
