// Package exact keeps the keys of a crawl that must never be dropped, in addition to a frontier
// whose filter may drop one in a million.
//
// A Set decides, exactly and durably, which keys are new. Store combines it with a
// frontier.Store, so that a crawl sees one frontier. Relay and Reconcile exchange what one of
// the two missed while it was away, or lost. Rules say which keys are exact. The package knows no
// database: pgstore is a Set in Postgres, exacttest.Memory one for tests.
package exact
