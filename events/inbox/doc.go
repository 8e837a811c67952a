// Package inbox runs a handler once per event, even if the event is delivered many times.
//
// Message brokers and webhooks deliver at least once. After a crash, a lost acknowledgement
// or a timeout they deliver the same event again. An Inbox stores the ids of handled events
// in Postgres, in the transaction in which the handler writes. A stored id is the mark of
// its event.
//
//   - Inbox.Once runs a handler immediately, or returns Duplicate if the event was handled
//     before.
//   - Inbox.Store keeps an event, so that the event can be acknowledged to the broker
//     immediately. Inbox.Work runs the handlers of stored events later, with attempts,
//     back-off and dead letters.
//
// An event is marked by the same commit that makes the handler's writes visible. If the
// handler fails or panics, or its process ends, neither the mark nor the writes are
// committed.
//
// This covers only the writes through the transaction. An e-mail or a payment is not rolled
// back. Send the event's id with the e-mail or the payment, so that its receiver can
// recognise a repeat.
//
// The package owns the tables of marks and of stored events. It receives no events itself.
// Its subpackages connect it with HTTP, NATS and Kafka. Two more packages use Redis:
// rediscache answers repeats without Postgres, and redisonly is an inbox without Postgres
// that promises less.
package inbox
