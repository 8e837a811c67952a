// Package idempotency lets a repeated HTTP request have one effect.
//
// A client that got no answer does not know whether its request had an effect. It sends the
// request again with the same Idempotency-Key. The Middleware runs the handler for the first
// of these requests only, and answers the others with the stored answer of the first. It
// follows draft-ietf-httpapi-idempotency-key-header-08.
//
// The writes of the handler and its answer are one transaction of the Store. So after a
// crash, either both are stored or neither is. Package postgres, below this one, has a Store
// in Postgres, and its handlers write through a pgx.Tx. Package embedded has a Store for one
// process, in pebble, and its handlers write through a *pebble.Batch. Effects that do not
// take part in the transaction, such as an e-mail or a call of another service, can still
// happen twice. Pass the key on to the other service, if it accepts one.
//
// # What is stored
//
// The status of the handler's answer decides:
//
//   - Below 400: the writes are committed, and the answer is stored.
//   - 400 to 499: the writes are undone, and the answer is not stored, because it can be about
//     the request's syntax or about a state that will change. If the state decided the answer,
//     and each repeat must get the same, the handler calls StoreRefusal.
//   - 500 and above: the writes are undone, and the answer is not stored. A repeat runs the
//     handler again.
//   - 401, 403, 413 and 429 are never stored, and the writes are undone.
//
// With CommitWrites a handler commits its writes with any other status. Then the answer is
// stored too.
//
// The package answers the requests that it refuses with problem details (RFC 9457). It does
// not authenticate callers: do that in a handler around the Middleware, because a replay does
// not reach the handler inside.
package idempotency
