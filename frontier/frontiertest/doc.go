// Package frontiertest tests implementations of a frontier against its contract.
//
// It has the suite that each implementation of package frontier must pass (Run,
// named cases; Model, random operations that a model checks; Bench), an in-memory
// reference implementation (Memory) and a wrapper that makes a store fail by plan
// (Faulty). It imports no implementation.
//
// The suite requires the following in addition to the comments of package frontier:
//
//   - Verdicts. An item without URL or host is refused as malformed, an item longer
//     than frontier.MaxURLBytes as too long, and a new item beyond its host's limit
//     because of the limit. None of them is remembered. A known URL is answered Seen
//     even if its host has reached the limit. An exact item is answered Seen only if
//     its URL was added before, as an item of any class.
//   - Order. Among the ready items of a host, lower priorities go first; within a
//     priority, the item that was added first goes first. Items given back return to
//     their places. The store chooses the place of an item that was delayed, retried
//     or queued again within its priority. A delayed item counts as queued.
//   - Due. A host can be leased if it is not leased, it is due, and one of its items
//     is ready. Each HostUpdate sets due time and delay, also to a zero Delay. Before
//     the first HostUpdate the host has the delay of the crawl.
//   - Batch. A lease hands out clamp(TTL/delay, 1, 32) items, or 32 if the delay is 0,
//     or all that are ready if they are fewer. A lease does not get items again that
//     it completed, because a repeated completion would then look like a second one.
//   - Repeats. A repeated Lease returns the time that is left, or renews the lease. A
//     repeated Complete changes nothing and calls no Record, also if it ended the
//     lease and the lease's deadline has not passed.
//   - Expiry. At its deadline a lease is lost. Extend and Complete then return
//     ErrLeaseLost and have no effect, also not on links. The next call of Lease, even
//     with no IDs, or an earlier call returns the lease's items to the queue. The
//     first InFlight items that were not completed get Deliveries + 1, up to
//     MaxDeliveries. The host is due at the deadline plus its delay, or at the due
//     time of the last HostUpdate if that is later.
//   - MaxPages. A call with MaxPages never makes pages plus leased items exceed it.
//     Limited is true if they reach it and items are queued, even if no host is due.
//     Reached is true if, in addition, the pages alone reach it.
//   - Pause. There are no new leases, and Extend adds no items. Repeats, Extend and
//     Complete still work.
//   - Retry. Failed items are queued again with Round + 1, no attempts and no
//     deliveries. The blobs of their hosts are cleared, but may stay while a host is
//     leased. Due times stay. Stats.Retries counts only the disposition Retry.
//   - Decisions, for an exact.Outbox. Offers of one URL as New, Promoted or Again are
//     equivalent: the URL waits at most once. A Promoted item that the filter claims
//     gets Round 1, unless the offer has a round. Retry skips a failed item whose URL
//     waits again.
//   - Notes. The note of a link has the item of its offer, without the Delay. A crawl
//     with notes is not Empty.
//   - Books. Every counter is exact at any moment, except that Delayed may count items
//     whose delay has passed since the last call.
//
// Stores that differ from this implement a marker interface: LinksFirst if links stay
// when the completion of their page fails, ForgetsDone if the store does not keep the
// outcomes of done items, KeepsLeases if leases do not end when a crawl is reopened.
package frontiertest
