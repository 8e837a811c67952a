// Package frontiertest holds every frontier to its contract.
//
// It owns the suite that each implementation of package frontier passes (Run,
// the cases by name; Model, random operations against a map; Bench), an
// in-memory reference implementation (Memory) and a wrapper that makes a store
// fail by plan (Faulty). It imports no engine.
//
// What the suite holds stores to, beyond the comments of package frontier:
//
//   - Verdicts. An item without URL or host is refused as malformed, one longer
//     than frontier.MaxURLBytes as too long, one that is new beyond its host's
//     limit by that; none of them is remembered. Whether a URL is known is asked
//     before the host's limit. An exact item is answered Seen only if its URL
//     was added before, as an item of whatever class.
//   - Order. Of the ready items of a host the lower priority goes first, then
//     the one added first. Items given back return to their place. Where an item
//     that was delayed, retried or offered again comes within its priority is
//     left to the store. A delayed item counts as queued.
//   - Due. A host is leased when it is not leased already, it is due and an item of
//     it is ready. A HostUpdate sets due and delay anew each time, a zero Delay
//     too; before the first one the delay is the crawl's.
//   - Batch. A lease hands out clamp(TTL/delay, 1, 32) items, 32 when the delay
//     is 0, or as many as are ready. What a lease completed is not handed out
//     under it again, so that the repeat of a completion cannot be taken for a
//     second one.
//   - Repeats. A repeated Lease tells the time that is left, or renews the
//     lease. A repeated Complete changes nothing and calls no Record, also when
//     the lease has been ended by it and its deadline has not passed.
//   - Expiry. At its deadline a lease is lost: Extend and Complete answer
//     ErrLeaseLost without effect, links neither. The next Lease call at the
//     latest (one that asks for no host will do) takes back what it held: the
//     first InFlight items that were not completed get Deliveries + 1, up to
//     MaxDeliveries, and the host is due at the deadline plus its delay, or
//     later if a HostUpdate said so.
//   - MaxPages. Pages plus leased items never exceed it through a call that
//     names it; Limited is true when they reach it and something is queued,
//     due or not, and Reached when the pages alone do.
//   - Pause. No new lease and no top-up; repeats, Extend and Complete go on.
//   - Retry. Failed items are queued again with Round + 1, no attempts and no
//     deliveries; the blob of their hosts is cleared (it may stay while a worker
//     has the host), their due times are kept. Stats.Retries counts the
//     disposition Retry only.
//   - Decisions, of an exact.Outbox. New, Promoted and Again of one URL are one
//     offer: it waits, once, for any caller. A Promoted item that the filter claims
//     gets Round 1 unless it has one. A failed item whose URL waits again is not
//     retried meanwhile.
//   - Notes. The note of a link holds the item that its offer gives, but for the
//     Delay. A crawl with notes is not Empty.
//   - Books. Every counter is exact at any moment (Delayed may count items whose
//     delay has passed but that no call has looked at since).
//
// A store that cannot undo the links of a completion that fails afterwards
// says so by LinksFirst, one that keeps no outcome of what is done by ForgetsDone,
// one whose leases are of no use to another process by KeepsLeases.
package frontiertest
