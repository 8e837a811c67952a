package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/events/inbox/kafka"
)

// TestTransact: a consumer of committed records sees one result of each record, although
// the function process fails in the middle of batches, and sessions end during batches.
func TestTransact(t *testing.T) {
	t.Parallel()
	const records = 50
	addr := cluster(t)
	b := open(t, addr, "in")
	for i := range records {
		b.Send(t, fmt.Appendf(nil, "%d", i), 1, i%2 == 0)
	}
	var calls atomic.Int32
	fault := errors.New("process fails")
	process := func(_ context.Context, record *kgo.Record) ([]*kgo.Record, error) {
		result := []*kgo.Record{{Topic: "out", Value: record.Value}}
		if n := calls.Add(1); n%20 == 0 && n <= 60 {
			return result, fault // after earlier results of the batch were produced
		}
		return result, nil
	}
	for failures := 0; !b.Settled(t); failures++ {
		session, err := kgo.NewGroupTransactSession(append(options(addr, "in"),
			kgo.TransactionalID(fmt.Sprint("t", failures)), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- kafka.Transact(ctx, session, process) }()
		for err = nil; err == nil && !b.Settled(t); {
			select {
			case err = <-over:
				if !errors.Is(err, fault) {
					t.Fatalf("Transact: error %v, want the one of the function process", err)
				}
			case <-time.After(10 * time.Millisecond):
			}
		}
		cancel()
		if err == nil {
			must(t, <-over)
		}
		session.Close()
	}
	if calls.Load() == records {
		t.Error("process was called once for each record, so no batch was repeated")
	}
	if counts := consume(t, addr, "out", records); len(counts) != records {
		t.Errorf("%d different results, want %d", len(counts), records)
	}
}

// TestTransactAllowsClose: after Transact has returned, a session that blocks rebalances can
// be closed.
func TestTransactAllowsClose(t *testing.T) {
	t.Parallel()
	session, err := kgo.NewGroupTransactSession(append(options(cluster(t), "in"), kgo.BlockRebalanceOnPoll(),
		kgo.TransactionalID("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // ends during a poll, because there are no records
	defer cancel()
	must(t, kafka.Transact(ctx, session, func(context.Context, *kgo.Record) ([]*kgo.Record, error) { return nil, nil }))
	closed := make(chan struct{})
	go func() { session.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("Close has not returned after 20 s")
		session.AllowRebalance()
		<-closed
	}
}

// consume counts the committed records of a topic by their values. It reads until it has
// the given number, and then one second longer, to find records that should not be
// there.
func consume(t *testing.T, addr, topic string, records int) map[string]int {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	must(t, err)
	defer client.Close()
	counts, total := map[string]int{}, 0
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		ctx, cancel := context.WithDeadline(t.Context(), deadline)
		client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			if counts[string(record.Value)]++; counts[string(record.Value)] > 1 {
				t.Errorf("result %s came %d times", record.Value, counts[string(record.Value)])
			}
			if total++; total == records {
				deadline = time.Now().Add(time.Second)
			}
		})
		cancel()
	}
	return counts
}

// TestOptions: a client that would lose or repeat records is refused.
func TestOptions(t *testing.T) {
	client, err := kgo.NewClient(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"))
	must(t, err)
	defer client.Close()
	if err := kafka.Run(t.Context(), client, kafka.Config{Inbox: new(inbox.Inbox)}); err == nil {
		t.Error("Run with a client that commits offsets by itself: no error")
	}
}
