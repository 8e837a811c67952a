// Package events delivers what a crawl finds to other programs: one event for each
// record, at least once, with an id that every repeat of it has.
//
// An Outbox reads the events of a crawl from what the crawl has committed: its
// record files, the journal of a worker on Redis, or the record table in
// Postgres. Run is a relay: it reads an outbox, hands the events to a Sink, and
// moves its cursor, which a Progress keeps, when the sink has acknowledged them.
//
// The package owns the form of an event, the order of delivery, cursors and dead
// letters. It does not own records (package record) or what a consumer does with
// an event (package inbox). A sink that is away delays delivery, never the crawl.
package events
