// Package exact stores the keys of a crawl that must never be dropped, beside a frontier whose
// filter can drop one key in a million.
//
// A Set decides, exactly and durably, which keys are new. Store combines it with a
// frontier.Store, so that a crawl sees one frontier. After an outage or a loss of data, Relay
// and Reconcile make the set and the queue agree again. Rules say which keys are exact. The
// package uses no database: pgstore is a Set in Postgres, and exacttest.Memory is one for tests.
package exact
