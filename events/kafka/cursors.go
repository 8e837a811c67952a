package kafka

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bloomfrontier/crawler/events"
)

// position is the last cursor of one key in the topic of cursors. Each relay has a key of
// its own (see events.TransactionalSink).
type position struct {
	cursor events.Cursor
	known  bool // false means that no cursor has the key
}

// look returns the last committed cursor of a key. It first commits a mark, which is a
// record with a random value, and then reads the topic up to this record. When the mark is
// committed, all transactions of earlier clients with the same transactional id have ended.
// So a cursor that one of these clients wrote is before the mark, or was not committed.
func (t *transactions) look(ctx context.Context, key string) (position, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.Timeout, errNoAnswer)
	defer cancel()
	mark := &kgo.Record{Topic: t.CursorTopic, Key: []byte("mark of " + t.TransactionalID), Value: []byte(rand.Text())}
	if err := t.transact(ctx, nil, mark); err != nil {
		return position{}, err
	}
	at, err := t.read(ctx, key, mark)
	if err != nil {
		return position{}, t.away(fmt.Errorf("read topic %s: %w", t.CursorTopic, err))
	}
	return at, nil
}

// read returns the last cursor of a key before the record mark. It reads the whole topic of
// cursors, which is compacted and therefore short.
func (t *transactions) read(ctx context.Context, key string, mark *kgo.Record) (at position, err error) {
	topics, err := kadm.NewClient(t.client).ListTopics(ctx, t.CursorTopic)
	if err != nil {
		return at, err
	}
	if n := len(topics[t.CursorTopic].Partitions); n != 1 {
		return at, fmt.Errorf("it has %d partitions, want 1, so that its records have one order", n)
	}
	reader, err := kgo.NewClient(append([]kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.CursorTopic: {0: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	}, t.opt...)...)
	if err != nil {
		return at, err
	}
	defer reader.Close()
	for marked := false; !marked; {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return at, context.Cause(ctx)
		}
		if err := fetches.Err(); err != nil {
			return at, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			switch string(r.Key) {
			case key:
				at = position{events.Cursor(r.Value), true}
			case string(mark.Key):
				marked = marked || string(r.Value) == string(mark.Value)
			}
		})
	}
	return at, nil
}
