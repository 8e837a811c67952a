// Package exact stores the keys of a crawl that must never be dropped, beside a frontier whose
// filter may drop one key in a million.
//
// A Set decides, exactly and durably, which keys are new. Store combines it with a
// frontier.Store, so that a crawl sees one frontier. Relay and Reconcile bring to the set and to
// the queue what either of them missed while it was away, or lost. Rules say which keys are
// exact. The package uses no database: pgstore is a Set in Postgres, and exacttest.Memory is
// one for tests.
package exact
