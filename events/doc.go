// Package events delivers the records of a crawl to other programs as events. There is one
// event for each record. It is delivered at least once, and every repeat has the same id.
//
// An Outbox reads the events of a crawl from its committed records: the record files, the
// journal of a worker on Redis, or the record table in Postgres. Run is a relay. It reads
// an outbox and passes the events to a Sink. When the sink has acknowledged events, the
// relay moves its cursor, which a Progress stores.
//
// The package owns the form of an event, the order of delivery, cursors and dead letters.
// It does not own records (package record) or the handling of events by their receivers
// (package inbox). An unavailable sink delays the delivery, but never the crawl.
package events
