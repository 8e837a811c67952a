// Package pgstore stores the exact set of a crawl in Postgres: a key for each URL that must
// never be dropped, and the state of each key. It also stores records, which are the results
// of URLs, and the links of pages, as rows. An Outbox reads these rows as events, and stores the progress of the
// relays that send the events.
//
// A Store is an exact.Set that any number of processes share. Postgres decides: if
// several callers insert one key at the same time, the caller whose insert returns the
// key owns it. The tables are in the schema "crawler". Each crawl has five tables of its
// own, with its number in their names, so that one crawl can be created or dropped while
// others continue. docs/reference/postgres.md has the schema, the size of a million keys,
// and SQL for operators.
//
// # Locks
//
// A statement that waits for rows locks them in one order: keys by fingerprint, then the
// waiting and pending rows of these keys, then records. The statements of Sweep, Stale and
// Queued skip rows that are locked (SKIP LOCKED). They keep the same order, because even SKIP
// LOCKED can wait. It can wait if another transaction commits an update of a row while the
// statement runs, and the new version of the row is locked. So workers never deadlock,
// however many there are.
//
// A statement sees the data as of the moment when it began. If it then waits for a lock,
// it sees the new version of the locked row, but the old versions of all other rows. A
// change that depends on several rows therefore takes two statements of one transaction.
// The first statement takes the locks. The second statement sees everything that was
// committed before it began, and changes only rows that the first one has locked.
//
// # Failures
//
// After an error that is usually over in a moment, such as a lost connection, a call is tried
// again a few times within seconds. If the call still fails, or if the error lasts longer, as
// on a full disk, the error is a frontier.ErrUnavailable. All calls can be repeated. If the
// answer of a Decide was lost, its keys stay pending, and a relay finds them. No error
// contains a password.
//
// The package does not queue keys and does not decide which keys are exact. Package exact
// does both.
package pgstore
