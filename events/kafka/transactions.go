package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bloomfrontier/crawler/events"
)

// errMoved reports that the stored cursor is not the last one that this relay has committed.
var errMoved = errors.New("another process has moved this relay's cursor: end one of them")

// transactions is a sink that commits events and a cursor in each transaction.
//
// A transaction that returned an error might still have been committed. After an error the
// client is closed. The next client ends all open transactions of the transactional id.
// After that, the topic of cursors shows whether the transaction was committed.
type transactions struct {
	*cluster

	turn   sync.Mutex  // one transaction at a time
	client *kgo.Client // nil means that open must create it
	last   map[string]position
	doubt  map[string]bool // keys whose last transaction failed
}

var _ events.TransactionalSink = (*transactions)(nil)

// Send implements events.Sink, in a transaction without a cursor.
func (t *transactions) Send(ctx context.Context, batch []events.Event) []error {
	t.turn.Lock()
	defer t.turn.Unlock()
	return slices.Repeat([]error{t.transact(ctx, batch)}, len(batch))
}

// Committed implements events.TransactionalSink.
func (t *transactions) Committed(ctx context.Context, key string) (events.Cursor, bool, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	at, err := t.look(ctx, key)
	if err != nil {
		return "", false, err
	}
	t.last[key] = at
	delete(t.doubt, key)
	return at.cursor, at.known, nil
}

// Commit implements events.TransactionalSink.
func (t *transactions) Commit(ctx context.Context, key string, batch []events.Event, cursor events.Cursor) error {
	t.turn.Lock()
	defer t.turn.Unlock()
	if t.doubt[key] {
		at, err := t.look(ctx, key)
		switch {
		case err != nil:
			return err
		case at == position{cursor, true}:
			t.last[key] = at
			delete(t.doubt, key)
			return nil
		case at != t.last[key]:
			return &events.AwayError{Err: errMoved}
		}
		delete(t.doubt, key)
	}
	note := &kgo.Record{Topic: t.CursorTopic, Key: []byte(key), Value: []byte(cursor)}
	if err := t.transact(ctx, batch, note); err != nil {
		t.doubt[key] = true
		return err
	}
	t.last[key] = position{cursor, true}
	return nil
}

// Close implements events.Sink.
func (t *transactions) Close() error {
	t.drop()
	return nil
}

// open returns the client. A new client ends all transactions of older clients with the
// same transactional id.
func (t *transactions) open(ctx context.Context) (*kgo.Client, error) {
	if t.client != nil {
		return t.client, nil
	}
	opt := append([]kgo.Opt{kgo.TransactionalID(t.TransactionalID), kgo.TransactionTimeout(t.Timeout + 10*time.Second)}, t.opt...)
	client, err := kgo.NewClient(opt...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	if err := t.ensure(ctx, client); err != nil {
		client.Close()
		return nil, err
	}
	if _, _, err := client.ProducerID(ctx); err != nil {
		client.Close()
		return nil, t.away(fmt.Errorf("begin as transactional id %q: %w", t.TransactionalID, err))
	}
	t.client = client
	return client, nil
}

// drop closes the client and gives up its transaction.
func (t *transactions) drop() {
	if t.client != nil {
		t.client.Close()
		t.client = nil
	}
}

// transact commits a transaction with the events of batch and the extra records. After an
// error the client is closed.
func (t *transactions) transact(ctx context.Context, batch []events.Event, extra ...*kgo.Record) error {
	records := extra
	for i := range batch {
		r, err := record(&batch[i])
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.Timeout, errNoAnswer)
	defer cancel()
	client, err := t.open(ctx)
	if err != nil {
		return err
	}
	if err := client.BeginTransaction(); err != nil {
		t.drop()
		return t.away(err)
	}
	if err := t.produce(ctx, client, records); err != nil {
		t.drop()
		return t.verdict(t.explain(err))
	}
	if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.drop()
		return t.away(fmt.Errorf("commit: %w", t.explain(err)))
	}
	return nil
}

// explain adds advice to the errors that occur when another process uses the same
// transactional id.
func (t *transactions) explain(err error) error {
	if errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) {
		return fmt.Errorf("another process uses the transactional id %q: give each process its own: %w", t.TransactionalID, err)
	}
	return err
}

// produce returns nil when the brokers have all records. When ctx ends, it closes the
// client, because there is no other way to give up a record that might have been
// stored.
func (t *transactions) produce(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		close(closed)
	})
	results := client.ProduceSync(context.WithoutCancel(ctx), records...)
	if !stop() {
		<-closed
		return errNoAnswer
	}
	for _, r := range results { // prefer an error that explains why the transaction is refused
		if _, refused := errors.AsType[*events.RefusedError](t.verdict(r.Err)); refused {
			return r.Err
		}
	}
	return results.FirstErr()
}
