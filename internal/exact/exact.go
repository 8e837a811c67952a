// Package exact decides about the exact URLs of a crawl, which must never be dropped. A store whose Bloom filter can
// drop one URL in a million uses it for these URLs.
//
// A Set decides, exactly and durably, which exact URLs are new. In a Set, an exact URL is called
// a key. A store uses a Set through a Client. After an outage or a loss of data, a Forwarder makes the set and the store's
// queue agree again. Rules say which URLs are exact. The package uses no database: pgstore is a Set
// in Postgres, and exacttest.Memory is one for tests.
package exact
