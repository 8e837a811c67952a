// Package exact stores the exact URLs of a crawl, which must never be dropped. It works beside
// a frontier whose Bloom filter can drop one URL in a million.
//
// A Set decides, exactly and durably, which exact URLs are new. In a Set, an exact URL is called
// a key. Store combines a Set with a frontier.Store, called the queue, so that a crawl sees one
// frontier. After an outage or a loss of data, Forwarder and Reconcile make the set and the queue
// agree again. Rules say which URLs are exact. The package uses no database: pgstore is a Set
// in Postgres, and exacttest.Memory is one for tests.
package exact
