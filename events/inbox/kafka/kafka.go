// Package kafka handles each event of Kafka topics once, with package inbox.
//
// Run commits the offset of a record after the transaction of its handler has committed. So
// a rebalance or a crash cannot lose records. It can repeat records, which the inbox
// recognises.
//
// Transact is for programs that only produce Kafka records from the records they consume,
// and do nothing else with them. It needs no inbox and no database.
package kafka

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/events/inbox/internal/delivery"
)

// Options returns options that the client of Run must have, in addition to the options
// of a consumer group. They ensure that only Run commits offsets, and that a partition is
// not moved to another member of the group while Run handles its records.
func Options() []kgo.Opt { return []kgo.Opt{kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll()} }

// Config configures Run. Inbox is required.
type Config struct {
	Inbox *inbox.Inbox
	// Handle handles an event, in the transaction that marks it. If it is nil, events are
	// stored, and a program that calls Inbox.Work handles them. Store the events if a
	// handler can end its process, because Kafka does not count deliveries and would
	// deliver the record again for ever.
	Handle inbox.Handler
	// Event makes an event from a record. If it is nil, the record's value must be a
	// CloudEvent (inbox.CloudEvent). ByOffset is another choice. A record for which Event
	// returns an error becomes a dead letter.
	Event func(record *kgo.Record) (inbox.Event, error)
	// Workers is how many partitions are handled at a time; 0 means 4. The records of
	// one partition are handled in order.
	Workers int
	// Batch is the largest number of records that are handled between two commits of
	// offsets; 0 means 100. A batch should take less time than the group's rebalance
	// timeout.
	Batch int
	// Attempts is how many attempts an event has in one process; 0 means 10. Its partition
	// waits between attempts. After the last attempt, the event becomes a dead letter.
	Attempts int
	// Backoff is the time between the first attempt and the second; 0 means 1 s. It
	// doubles with each attempt, up to a minute. Run handles no other records meanwhile.
	Backoff time.Duration
	// Timeout is the time after which the context of a handler ends; 0 means 1 minute.
	Timeout time.Duration
	// Logger receives failed attempts; nil discards.
	Logger *slog.Logger
}

// ByOffset makes an event of type "record", whose id is the place of the record in its
// topic (inbox.KeyFromOffset).
func ByOffset(record *kgo.Record) (inbox.Event, error) {
	return inbox.Event{ID: where(record), Type: "record", Data: record.Value}, nil
}

func where(record *kgo.Record) string {
	return inbox.KeyFromOffset(record.Topic, record.Partition, record.Offset)
}

func (c Config) withDefaults() (Config, error) {
	err := delivery.Check(c.Inbox, map[string]int64{
		"Workers": int64(c.Workers), "Batch": int64(c.Batch), "Attempts": int64(c.Attempts),
		"Backoff": int64(c.Backoff), "Timeout": int64(c.Timeout),
	})
	if c.Event == nil {
		c.Event = func(record *kgo.Record) (inbox.Event, error) { return inbox.CloudEvent(record.Value) }
	}
	c.Workers, c.Batch, c.Attempts = cmp.Or(c.Workers, 4), cmp.Or(c.Batch, 100), cmp.Or(c.Attempts, 10)
	c.Backoff, c.Timeout = cmp.Or(c.Backoff, time.Second), cmp.Or(c.Timeout, time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, err
}

// Run handles the records that client consumes until ctx ends. It returns nil when the
// handlers under way have returned and their offsets are committed. While brokers or the
// database are unavailable, it waits. The error is kgo.ErrClientClosed, or a fault of cfg or of
// the options of client.
func Run(ctx context.Context, client *kgo.Client, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if client.OptValue(kgo.DisableAutoCommit) != true || client.OptValue(kgo.BlockRebalanceOnPoll) != true ||
		client.OptValue(kgo.ConsumerGroup) == "" {
		err = errors.Join(err, errors.New("inbox: the Kafka client needs a ConsumerGroup and the options of kafka.Options"))
	}
	if err != nil {
		return err
	}
	r := &run{cfg: cfg, client: client, failures: map[partition]failure{},
		target: delivery.Target{Inbox: cfg.Inbox, Handle: cfg.Handle, Timeout: cfg.Timeout, Attempts: cfg.Attempts}}
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, cfg.Batch)
		if fetches.IsClientClosed() {
			return kgo.ErrClientClosed
		}
		wait := r.batch(ctx, fetches)
		client.AllowRebalance()
		delivery.Sleep(ctx, wait)
	}
	return nil
}

type partition struct {
	topic  string
	number int32
}

// failure counts the failed attempts of the record at which a partition waits.
type failure struct {
	offset   int64
	attempts int
}

// run is one call of Run.
type run struct {
	cfg      Config
	client   *kgo.Client
	target   delivery.Target
	failures map[partition]failure // as of the last batch of each partition
}

// pause is the time before the next call to an unavailable database or broker.
const pause = time.Second

// batch handles the records of one poll and commits the offsets of those that were handled.
// Each partition continues with its first record that was not handled. batch returns how
// long to wait before the next poll.
func (r *run) batch(ctx context.Context, fetches kgo.Fetches) (wait time.Duration) {
	fetches.EachError(func(topic string, number int32, err error) {
		if ctx.Err() == nil {
			r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "no records can be fetched",
				slog.String("topic", topic), slog.Int("partition", int(number)), slog.Any("err", err))
			wait = pause
		}
	})
	var mu sync.Mutex // guards wait, r.failures, handled and rewind
	var handled []*kgo.Record
	rewind := map[string]map[int32]kgo.EpochOffset{}
	failures := maps.Clone(r.failures)
	var partitions errgroup.Group
	partitions.SetLimit(r.cfg.Workers)
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 {
			return
		}
		of := partition{p.Topic, p.Partition}
		partitions.Go(func() error {
			done, failed, pause := r.handlePartition(ctx, p.Records, failures[of])
			mu.Lock()
			defer mu.Unlock()
			wait = max(wait, pause)
			r.failures[of] = failed
			if done > 0 {
				handled = append(handled, p.Records[done-1])
			}
			if done < len(p.Records) {
				next := p.Records[done]
				if rewind[p.Topic] == nil {
					rewind[p.Topic] = map[int32]kgo.EpochOffset{}
				}
				rewind[p.Topic][p.Partition] = kgo.EpochOffset{Epoch: next.LeaderEpoch, Offset: next.Offset}
			}
			return nil
		})
	})
	_ = partitions.Wait() // no goroutine returns an error
	if len(handled) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := r.client.CommitRecords(ctx, handled...); err != nil { // the records are delivered again
			r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "offsets were not committed", slog.Any("err", err))
		}
	}
	r.client.SetOffsets(rewind)
	return wait
}

// handlePartition handles records of one partition, in order. It returns the number of
// handled records, the failed attempts of the next record, and how long to wait before the
// next attempt.
func (r *run) handlePartition(ctx context.Context, records []*kgo.Record, failed failure) (done int, _ failure, _ time.Duration) {
	for _, record := range records {
		if ctx.Err() != nil {
			break
		}
		if failed.offset != record.Offset {
			failed = failure{offset: record.Offset}
		}
		e, err := r.cfg.Event(record)
		if err != nil {
			e.Data = record.Value
		}
		outcome, err := r.target.Deliver(context.WithoutCancel(ctx), e, err, where(record), failed.attempts+1)
		if err != nil {
			r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "an event was not handled", slog.String("record", where(record)),
				slog.Int("attempt", failed.attempts+1), slog.Bool("dead", outcome == delivery.Final), slog.Any("err", err))
		}
		switch outcome {
		case delivery.Failed:
			failed.attempts++
			return done, failed, delivery.Backoff(r.cfg.Backoff, failed.attempts)
		case delivery.Unavailable: // this does not count as an attempt of the event
			return done, failed, pause
		}
		done++
	}
	return done, failed, 0
}
