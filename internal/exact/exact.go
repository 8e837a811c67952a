// Package exact keeps the keys of a crawl that must never be dropped, beside a
// frontier whose filter may drop one in a million.
//
// A Set decides exactly, and durably, which of them are new. Store puts it in
// front of a frontier.Store, so that a crawl sees one frontier; Relay and
// Reconcile bring the two together again after one of them was away or lost
// something; Rules say which keys are exact. The package knows no database:
// pgstore is a Set in Postgres, exacttest.Memory one for tests.
package exact
