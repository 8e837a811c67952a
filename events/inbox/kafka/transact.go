package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bloomfrontier/crawler/events/inbox/internal/delivery"
)

// Transact consumes records and produces the records that the function process returns for
// them, in one Kafka transaction for each batch. A consumer that reads only committed
// records sees the result of each record once. Transact runs until ctx ends, and then
// returns nil. If the function process or Kafka fails, Transact returns the error. The next
// call, or another member of the group, consumes the uncommitted records again.
//
// This guarantee covers only records. All other effects of the function process can happen
// more than once for a record. Use Run for writes to a database.
//
// The session must have a transactional id that no other process has, a consumer group, and
// the option kgo.FetchIsolationLevel(kgo.ReadCommitted()). Transact does not close the
// session.
func Transact(ctx context.Context, session *kgo.GroupTransactSession,
	process func(ctx context.Context, record *kgo.Record) ([]*kgo.Record, error)) error {
	defer session.AllowRebalance() // with kgo.BlockRebalanceOnPoll, Close would otherwise wait for ever
	for ctx.Err() == nil {
		fetches := session.PollRecords(ctx, 100)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			break
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("inbox: consume: %w", err)
		}
		err := transaction(ctx, session, fetches, process)
		session.AllowRebalance()
		if err != nil {
			return err
		}
	}
	return nil
}

// transaction handles one batch in a transaction. It returns nil if a rebalance aborts the
// transaction, because the batch is consumed again.
func transaction(ctx context.Context, session *kgo.GroupTransactSession, fetches kgo.Fetches,
	process func(ctx context.Context, record *kgo.Record) ([]*kgo.Record, error)) error {
	if err := session.Begin(); err != nil {
		return fmt.Errorf("inbox: begin a transaction: %w", err)
	}
	var failed error
	produced := kgo.AbortingFirstErrPromise(session.Client())
	for records := fetches.RecordIter(); failed == nil && !records.Done(); {
		results, err := process(ctx, records.Next())
		for _, result := range results {
			session.Produce(ctx, result, produced.Promise())
		}
		failed = err
	}
	failed = errors.Join(failed, produced.Err())
	// The transaction is ended even if ctx has ended. Until an open transaction times
	// out, it would delay the consumers that read only committed records.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	committed, err := session.End(ctx, kgo.TransactionEndTry(failed == nil))
	if failed = errors.Join(failed, err); failed != nil {
		return fmt.Errorf("inbox: the transaction was not committed: %w", failed)
	}
	if !committed {
		delivery.Sleep(ctx, 100*time.Millisecond)
	}
	return nil
}
