// Package inbox runs a handler once per event, however often the event is
// delivered.
//
// Message brokers and webhooks deliver at least once: after a crash, a lost
// acknowledgement or a timeout the same event comes again. An Inbox remembers the
// ids of events in Postgres, in the transaction in which the handler writes:
//
//   - Once runs a handler now, and reports Duplicate if the event was handled.
//   - Store keeps an event so that the broker can be acknowledged at once. Work runs
//     the handlers of stored events later, with attempts, back-off and dead letters.
//
// An event is marked only when its handler has succeeded, by the commit that makes
// the handler's writes visible. A handler that fails, panics or loses its process
// leaves neither.
//
// What this covers are writes through the transaction. A mail or a payment is not
// rolled back: pass the event's id on, so that the other side can recognise a
// repeat.
//
// The package owns the tables of marks and of stored events. It receives nothing
// itself: packages below it connect it with HTTP, NATS and Kafka. Packages
// rediscache, which answers repeats without Postgres, and redisonly, which works
// without Postgres and promises less, need Redis.
package inbox
