// Package events delivers the records of a crawl to other programs as events. There is one
// event for each record. It is delivered at least once, and every repeat has the same id.
//
// An Outbox reads the events of a crawl from the crawl's committed records. These are in
// files of a directory, in the files of one worker of a crawl in Redis, or in a table in
// Postgres. Run runs a relay, which reads an Outbox and passes the events to a Sink. When
// the sink has acknowledged events, the relay moves its cursor, which is a position in the
// outbox. A Progress stores the cursor.
//
// The package owns the form of an event, the order of delivery, cursors and dead letters.
// It does not own records (package record) or the handling of events by their receivers
// (package inbox). While a sink cannot accept events, only the delivery waits. The crawl
// goes on.
package events
