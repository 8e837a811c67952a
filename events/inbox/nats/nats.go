// Package nats handles each event of a NATS JetStream consumer once, with package inbox.
//
// A message is acknowledged when the transaction of its handler has committed. While the
// handler runs, the package reports progress to the server, so that the server does not
// deliver the message again. The server counts the deliveries. An event whose attempts are
// used up becomes a dead letter in the inbox, and then its message is terminated.
package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/events/inbox/internal/delivery"
)

// Config configures Run. Inbox is required.
type Config struct {
	Inbox *inbox.Inbox
	// Handle handles an event, in the transaction that marks it. If it is nil, events
	// are stored, and a program that calls Inbox.Work handles them.
	Handle inbox.Handler
	// Event makes an event from a message. If it is nil, the message must be a CloudEvent
	// (inbox.CloudEvent). A message for which Event returns an error becomes a dead letter.
	Event func(msg jetstream.Msg) (inbox.Event, error)
	// Workers is how many messages are handled at a time; 0 means 4. If Workers is 1,
	// events are handled in the order of the stream, except for events that failed.
	Workers int
	// Attempts is how many attempts an event has; 0 means 10. A delivery counts as an
	// attempt, even if the process ended during it.
	Attempts int
	// Backoff is the time between the first attempt and the second; 0 means 1 s. It
	// doubles with each attempt, up to a minute.
	Backoff time.Duration
	// Timeout is the time after which the context of a handler ends; 0 means 1 minute. A
	// handler that does not return when its context ends blocks its worker and its message.
	Timeout time.Duration
	// Logger receives failed attempts; nil discards.
	Logger *slog.Logger
}

// withDefaults returns c with its defaults. The error names every fault.
func (c Config) withDefaults() (Config, error) {
	err := delivery.Check(c.Inbox, map[string]int64{
		"Workers": int64(c.Workers), "Attempts": int64(c.Attempts), "Backoff": int64(c.Backoff), "Timeout": int64(c.Timeout),
	})
	if c.Event == nil {
		c.Event = func(msg jetstream.Msg) (inbox.Event, error) { return inbox.CloudEvent(msg.Data()) }
	}
	c.Workers, c.Attempts = cmp.Or(c.Workers, 4), cmp.Or(c.Attempts, 10)
	c.Backoff, c.Timeout = cmp.Or(c.Backoff, time.Second), cmp.Or(c.Timeout, time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, err
}

// Run handles the messages of consumer until ctx ends. It returns nil when the handlers
// under way have returned. While the server or the database is unavailable, it waits. It
// returns an error if cfg has a fault, if the consumer does not exist any more, or if the
// connection was closed.
//
// The consumer must have explicit acknowledgements. Its MaxDeliver must be unlimited or
// larger than Config.Attempts. Otherwise the server would silently stop delivering an event
// before it becomes a dead letter.
func Run(ctx context.Context, consumer jetstream.Consumer, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	of := consumer.CachedInfo().Config
	if of.AckPolicy != jetstream.AckExplicitPolicy {
		return fmt.Errorf("inbox: consumer %q has the acknowledgement policy %v, want explicit", of.Durable, of.AckPolicy)
	}
	if of.MaxDeliver > 0 && of.MaxDeliver <= cfg.Attempts {
		return fmt.Errorf("inbox: consumer %q loses events after %d deliveries: set its MaxDeliver to -1, or above %d attempts",
			of.Durable, of.MaxDeliver, cfg.Attempts)
	}
	r := &run{cfg: cfg, consumer: consumer, extend: of.AckWait / 3,
		target: delivery.Target{Inbox: cfg.Inbox, Handle: cfg.Handle, Timeout: cfg.Timeout, Attempts: cfg.Attempts}}
	for _, wait := range of.BackOff {
		r.extend = min(r.extend, wait/3)
	}
	workers, ctx := errgroup.WithContext(ctx)
	for range cfg.Workers {
		workers.Go(func() error { return r.work(ctx) }) // an error ends the other workers too
	}
	return workers.Wait()
}

// run is one call of Run.
type run struct {
	cfg      Config
	consumer jetstream.Consumer
	target   delivery.Target
	extend   time.Duration // time between reports to the server that a handler is running
}

const (
	fetchWait = 10 * time.Second // how long one request waits for a message
	pause     = time.Second      // before the next call to an unavailable server or database
)

// ended are the errors after which the consumer returns no more messages.
var ended = []error{jetstream.ErrConsumerDeleted, jetstream.ErrConsumerNotFound, jetstream.ErrConsumerDoesNotExist,
	jetstream.ErrStreamNotFound, nats.ErrConnectionClosed}

// work handles one message at a time until ctx ends. It does not fetch messages ahead. If a
// fetched message waited here for too long, the server would deliver the message again.
func (r *run) work(ctx context.Context) error {
	for ctx.Err() == nil {
		msg, err := r.next(ctx)
		if ctx.Err() == nil && slices.ContainsFunc(ended, func(end error) bool { return errors.Is(err, end) }) {
			return fmt.Errorf("inbox: messages of consumer %q: %w", r.consumer.CachedInfo().Name, err)
		}
		switch {
		case err == nil:
			r.deliver(ctx, msg)
		case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
		default:
			r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "no message can be fetched", slog.Any("err", err))
			delivery.Sleep(ctx, pause)
		}
	}
	return nil
}

func (r *run) next(ctx context.Context) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	return r.consumer.Next(jetstream.FetchContext(ctx))
}

// deliver makes one attempt with a message, and reports the outcome to the server. If the
// report is lost, the server delivers the message again, and the inbox recognises it.
func (r *run) deliver(ctx context.Context, msg jetstream.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		r.cfg.Logger.LogAttrs(ctx, slog.LevelError, "a message is not from JetStream", slog.Any("err", err))
		return
	}
	defer r.keepExtending(ctx, msg)()
	attempt := int(meta.NumDelivered)
	where := fmt.Sprintf("%s/%d", meta.Stream, meta.Sequence.Stream)
	for {
		e, err := r.cfg.Event(msg)
		if err != nil {
			e.Data = msg.Data()
		}
		outcome, err := r.target.Deliver(context.WithoutCancel(ctx), e, err, where, attempt)
		answer := msg.Ack
		switch outcome {
		case delivery.Failed:
			answer = func() error { return msg.NakWithDelay(delivery.Backoff(r.cfg.Backoff, attempt)) }
		case delivery.Final:
			answer = msg.Term
		case delivery.Unavailable:
			answer = msg.Nak
		}
		if err != nil {
			r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "an event was not handled", slog.String("message", where),
				slog.Int("attempt", attempt), slog.Bool("dead", outcome == delivery.Final), slog.Any("err", err))
		}
		if outcome == delivery.Unavailable && ctx.Err() == nil {
			delivery.Sleep(ctx, pause) // this does not count as an attempt of the event
			continue
		}
		if err := answer(); err != nil {
			r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the server could not be answered", slog.String("message", where), slog.Any("err", err))
		}
		return
	}
}

// keepExtending reports to the server repeatedly that the message is being handled, until
// the function stop is called.
func (r *run) keepExtending(ctx context.Context, msg jetstream.Msg) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var extending sync.WaitGroup
	extending.Go(func() {
		for delivery.Sleep(ctx, r.extend); ctx.Err() == nil; delivery.Sleep(ctx, r.extend) {
			_ = msg.InProgress() // if the report is lost, the message might be delivered again
		}
	})
	return func() { cancel(); extending.Wait() }
}
