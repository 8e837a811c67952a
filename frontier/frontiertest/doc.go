// Package frontiertest tests implementations of a frontier against its contract.
//
// The suite is for all implementations of package frontier: Run runs named cases,
// Model makes random calls and compares the answers with a model, and Bench measures
// how fast items are completed. Memory is a reference implementation in memory. Faulty
// makes chosen calls of a store fail. The package imports no other implementation.
//
// The suite requires the following in addition to the comments of package frontier:
//
//   - Verdicts. An offer without URL or host is refused with ReasonMalformed, a URL
//     longer than frontier.MaxURLBytes with ReasonTooLong, and a new URL beyond the
//     limit of its host with ReasonHostLimit. Refused URLs are not remembered. A known
//     URL is answered Seen even if its host has reached the limit. An exact offer is
//     answered Seen only if its URL was added before, as an exact or as a bulk URL.
//   - Order. A queued item is ready when its delay is over. The ready items of a host
//     are leased by priority, lower values first.
//     Within a priority, the item that was added first comes first. An item that is
//     given back returns to its place. For an item that was delayed, retried or queued
//     again, the store chooses a place within its priority. A delayed item counts as
//     queued.
//   - Due. A host can be leased if it is not leased already, it is due, and one of its
//     items is ready. Each HostUpdate sets the due time and the delay, even if Delay
//     is 0. Before the first HostUpdate the host has the delay of the crawl. The Delay
//     of a HostUpdate is at least that: a store takes a shorter one for the delay of an
//     older policy, and makes the host due later.
//   - Batch. A new lease has TTL/delay items, but at least 1 and at most 32. With a
//     delay of 0 it has 32. If fewer items are ready, it has all of them. An item
//     is not leased again under a lease that has completed it. Otherwise a repeat of
//     the first completion would look like a second completion.
//   - Repeats. A repeated Lease returns the remaining time, or renews the lease. A
//     repeated Complete calls no Record and changes nothing, except that the
//     HostUpdate takes effect again while the lease lasts. A call that ended the lease
//     can be repeated until the deadline of the lease.
//   - Expiry. A lease is lost at its deadline. After that, Extend and Complete return
//     ErrLeaseLost, have no effect and add no links. The items of the lease return to
//     the queue at the next call of Lease, even one without IDs, or earlier.
//     For the first InFlight items of the lease that were not completed, Deliveries
//     grows by 1, up to MaxDeliveries. The host is due at the deadline plus its delay,
//     or at the due time of the last HostUpdate if that is later.
//   - MaxPages. A call with MaxPages never makes the sum of pages and leased items
//     exceed MaxPages. Limited is true if the sum reaches MaxPages and items are
//     queued, even if no host is due. Reached is true if Limited is true, the pages
//     alone reach MaxPages, and no check is queued or leased. With LimitsPagesOnly, leased items
//     do not count: nothing is leased once the pages reach MaxPages, and LimitReached is true.
//   - Checks (frontier.CheckURL) do not count towards MaxPages, which does not limit
//     them. Their hosts have a delay of at least frontier.CheckDelay, and no maximum number
//     of items. A check and its URL are two items.
//   - Pause. While a crawl is paused, there are no new leases, and Extend adds no
//     items. Repeats of Lease, Extend and Complete still work.
//   - Retry. Failed items are queued again with Round + 1, no attempts and no
//     deliveries. The blobs of their hosts are removed, but a store may keep the blob of a
//     leased host. Due times do not change. Stats.Retries counts completions with the
//     disposition Retry, and not the items that Control.Retry queues.
//   - Books. Every counter is exact at any moment, except Delayed, which can include
//     items whose delay has ended since the last call.
//
// Stores that differ from this implement a marker interface: LinksFirst if links stay
// when the completion of their page fails, ForgetsDone if the store does not keep the
// outcomes of done items, KeepsLeases if leases do not end when a crawl is reopened.
package frontiertest
