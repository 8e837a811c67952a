package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// capture runs the statements of batch. The statement insert, one of them, inserts records. In the same
// transaction, capture inserts the events of the records that were new, and deletes these
// events again. Readers of the write-ahead log see the inserts. The event of a record is the
// same event that a relay sends.
func (s *Store) capture(ctx context.Context, batch *pgx.Batch, insert *pgx.QueuedQuery, records []exact.Row) error {
	var kept []int32
	insert.Query(func(rows pgx.Rows) (err error) {
		kept, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		return err
	})
	return s.inTransaction(ctx, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if err := tx.SendBatch(ctx, batch).Close(); err != nil || len(kept) == 0 {
			return err
		}
		var ids, hosts, types, payloads []string
		for _, sequence := range kept {
			row := &records[sequence-1]
			event, err := events.FromRecord(events.Source(s.identity), row.Record)
			if err != nil {
				return fmt.Errorf("event of %q: %w", row.URL, err)
			}
			payload, err := event.MarshalJSON()
			if err != nil {
				return fmt.Errorf("event of %q: %w", row.URL, err)
			}
			ids, hosts = append(ids, event.ID), append(hosts, event.Host)
			types, payloads = append(types, event.Type), append(payloads, string(payload))
		}
		var captured pgx.Batch
		captured.Queue(s.sql("capture"), ids, hosts, types, payloads)
		captured.Queue(s.sql("captured"), ids)
		return tx.SendBatch(ctx, &captured).Close()
	})
}
