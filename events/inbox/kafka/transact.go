package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bloomfrontier/crawler/events/inbox/internal/delivery"
)

// Transact consumes records, and produces what process returns for them, in one Kafka
// transaction for each batch: a consumer that reads committed records only sees the
// result of each record once. It runs until ctx ends and returns nil then, or until
// process or Kafka fails, and returns that error. The batch under way is aborted, and
// consumed again by the next call or by another member of the group.
//
// This covers records alone. Whatever else process does, it may do more than once for
// a record; use Run for writes to a database.
//
// The session has a transactional id of its own for each process, a consumer group,
// and the option kgo.FetchIsolationLevel(kgo.ReadCommitted()). Transact does not close
// it.
func Transact(ctx context.Context, session *kgo.GroupTransactSession,
	process func(ctx context.Context, record *kgo.Record) ([]*kgo.Record, error)) error {
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

// transaction is one batch. A batch that a rebalance aborts is no error: it is
// consumed again.
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
	// The end of a transaction outlives ctx: it would hold up those who read
	// committed records until it times out.
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
