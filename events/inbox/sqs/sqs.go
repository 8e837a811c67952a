// Package sqs handles each event of a queue of Amazon SQS once, with package inbox.
//
// A message is deleted when the transaction of its handler has committed. While the handler runs, the package extends the
// time for which the queue hides the message from others. SQS counts the deliveries. An event whose attempts are used up
// becomes a dead letter in the inbox, and then its message is deleted. In a FIFO queue, the messages of a group are
// handled in order, also if one of them fails: the others wait for it.
package sqs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	client "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/events/inbox/internal/delivery"
)

// Client has the methods of *sqs.Client that Run calls.
type Client interface {
	ReceiveMessage(context.Context, *client.ReceiveMessageInput, ...func(*client.Options)) (*client.ReceiveMessageOutput, error)
	DeleteMessage(context.Context, *client.DeleteMessageInput, ...func(*client.Options)) (*client.DeleteMessageOutput, error)
	ChangeMessageVisibility(context.Context, *client.ChangeMessageVisibilityInput, ...func(*client.Options)) (*client.ChangeMessageVisibilityOutput, error)
	GetQueueAttributes(context.Context, *client.GetQueueAttributesInput, ...func(*client.Options)) (*client.GetQueueAttributesOutput, error)
}

// Config configures Run. Inbox, Client and QueueURL are required.
type Config struct {
	Inbox    *inbox.Inbox
	Client   Client
	QueueURL string
	// Handle handles an event, in the transaction that marks it. If it is nil, events
	// are stored, and a program that calls Inbox.Work handles them.
	Handle inbox.Handler
	// Event makes an event from a message. If it is nil, the message must be a CloudEvent
	// (inbox.CloudEvent). A message for which Event returns an error becomes a dead letter.
	Event func(msg types.Message) (inbox.Event, error)
	// Workers is how many messages are handled at a time; 0 means 4.
	Workers int
	// Attempts is how many attempts an event has; 0 means 10. A delivery counts as an
	// attempt, even if the process ended during it, or before it got the message.
	Attempts int
	// Backoff is the time between the first attempt and the second; 0 means 1 s. It
	// doubles with each attempt, up to a minute. SQS counts whole seconds: a part of one counts as one.
	Backoff time.Duration
	// Timeout is the time after which the context of a handler ends; 0 means 1 minute. A
	// handler that does not return when its context ends blocks its worker and its message.
	Timeout time.Duration
	// Hidden is for how long the queue hides a message after its process has ended; 0 means 30 s. It is at least 3 s.
	Hidden time.Duration
	// Logger receives failed attempts; nil discards.
	Logger *slog.Logger
}

// withDefaults returns c with its defaults. The error names every fault.
func (c Config) withDefaults() (Config, error) {
	err := delivery.Check(c.Inbox, map[string]int64{
		"Workers": int64(c.Workers), "Attempts": int64(c.Attempts), "Backoff": int64(c.Backoff), "Timeout": int64(c.Timeout),
	})
	if c.Client == nil || c.QueueURL == "" {
		err = errors.Join(err, errors.New("inbox: want Config.Client and Config.QueueURL"))
	}
	if c.Hidden != 0 && c.Hidden < 3*time.Second {
		err = errors.Join(err, fmt.Errorf("inbox: Config.Hidden is %v, want 3s or more", c.Hidden))
	}
	if c.Event == nil {
		c.Event = func(msg types.Message) (inbox.Event, error) { return inbox.CloudEvent([]byte(aws.ToString(msg.Body))) }
	}
	c.Workers, c.Attempts = cmp.Or(c.Workers, 4), cmp.Or(c.Attempts, 10)
	c.Backoff, c.Timeout = cmp.Or(c.Backoff, time.Second), cmp.Or(c.Timeout, time.Minute)
	c.Hidden = cmp.Or(c.Hidden, 30*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, err
}

const (
	longPoll = 10 * time.Second // how long one request waits for a message
	pause    = time.Second      // before the next call to an unavailable queue or database
)

// Run handles the messages of the queue until ctx ends. It returns nil when the handlers under way have returned. While
// the queue or the database is unavailable, it waits. It returns an error if cfg has a fault.
//
// If the queue has a queue of dead letters, its maxReceiveCount must be larger than Config.Attempts. Otherwise SQS would
// move an event there before it becomes a dead letter of the inbox, and Run returns an error. It does not look at this if
// the user may not read the attributes of the queue.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	if err := cfg.checkRedrive(ctx); err != nil {
		return err
	}
	r := &run{cfg, delivery.Target{Inbox: cfg.Inbox, Handle: cfg.Handle, Timeout: cfg.Timeout, Attempts: cfg.Attempts}}
	var workers sync.WaitGroup
	for range cfg.Workers {
		workers.Go(func() { r.work(ctx) })
	}
	workers.Wait()
	return nil
}

// checkRedrive returns an error if SQS moves events to another queue before their last attempt.
func (c *Config) checkRedrive(ctx context.Context) error {
	got, err := c.Client.GetQueueAttributes(ctx, &client.GetQueueAttributesInput{
		QueueUrl: &c.QueueURL, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameRedrivePolicy},
	})
	if err != nil {
		return nil
	}
	var policy struct {
		MaxReceiveCount json.Number `json:"maxReceiveCount"` // a number, or a text with one
	}
	_ = json.Unmarshal([]byte(got.Attributes[string(types.QueueAttributeNameRedrivePolicy)]), &policy) // there may be none
	if n, err := policy.MaxReceiveCount.Int64(); err == nil && n <= int64(c.Attempts) {
		return fmt.Errorf("inbox: queue %s moves events to its dead-letter queue after %d deliveries: set maxReceiveCount above %d attempts",
			c.QueueURL, n, c.Attempts)
	}
	return nil
}

// run is one call of Run.
type run struct {
	cfg    Config
	target delivery.Target
}

// work handles one message at a time until ctx ends. It does not receive messages ahead.
func (r *run) work(ctx context.Context) {
	for ctx.Err() == nil {
		got, err := r.cfg.Client.ReceiveMessage(ctx, &client.ReceiveMessageInput{
			QueueUrl: &r.cfg.QueueURL, MaxNumberOfMessages: 1, WaitTimeSeconds: int32(longPoll / time.Second),
			VisibilityTimeout: seconds(r.cfg.Hidden), MessageSystemAttributeNames: []types.MessageSystemAttributeName{
				types.MessageSystemAttributeNameApproximateReceiveCount},
		})
		switch {
		case ctx.Err() != nil && err != nil:
		case err != nil:
			r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "no message can be received", slog.Any("err", err))
			delivery.Sleep(ctx, pause)
		default:
			for _, msg := range got.Messages {
				r.deliver(ctx, msg)
			}
		}
	}
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }

// deliver makes one attempt with a message, and tells the queue the outcome. If this is lost, the queue delivers the
// message again, and the inbox recognises it.
func (r *run) deliver(ctx context.Context, msg types.Message) {
	own := context.WithoutCancel(ctx)
	stopHiding := r.keepHiding(own, msg)
	attempt, _ := strconv.Atoi(msg.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	where := aws.ToString(msg.MessageId)
	for {
		e, err := r.cfg.Event(msg)
		if err != nil {
			e.Data = []byte(aws.ToString(msg.Body))
		}
		outcome, err := r.target.Deliver(own, e, err, where, max(attempt, 1))
		if err != nil {
			r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "an event was not handled", slog.String("message", where),
				slog.Int("attempt", attempt), slog.Bool("dead", outcome == delivery.Final), slog.Any("err", err))
		}
		if outcome == delivery.Unavailable && ctx.Err() == nil {
			delivery.Sleep(ctx, pause) // this does not count as an attempt of the event
			continue
		}
		stopHiding()
		switch outcome {
		case delivery.Failed:
			err = r.hide(own, msg, delivery.Backoff(r.cfg.Backoff, attempt))
		case delivery.Unavailable:
			err = r.hide(own, msg, 0)
		default:
			_, err = r.cfg.Client.DeleteMessage(own, &client.DeleteMessageInput{QueueUrl: &r.cfg.QueueURL, ReceiptHandle: msg.ReceiptHandle})
		}
		if err != nil {
			r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the queue could not be told", slog.String("message", where), slog.Any("err", err))
		}
		return
	}
}

// hide hides the message from others for the time d from now.
func (r *run) hide(ctx context.Context, msg types.Message, d time.Duration) error {
	_, err := r.cfg.Client.ChangeMessageVisibility(ctx, &client.ChangeMessageVisibilityInput{
		QueueUrl: &r.cfg.QueueURL, ReceiptHandle: msg.ReceiptHandle, VisibilityTimeout: seconds(d),
	})
	return err
}

// keepHiding hides the message again and again, until the function stop is called. stop returns after the last request.
func (r *run) keepHiding(ctx context.Context, msg types.Message) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var hiding sync.WaitGroup
	hiding.Go(func() {
		every := r.cfg.Hidden / 3
		for delivery.Sleep(ctx, every); ctx.Err() == nil; delivery.Sleep(ctx, every) {
			_ = r.hide(ctx, msg, r.cfg.Hidden) // if this is lost, the message might be delivered again
		}
	})
	return func() { cancel(); hiding.Wait() }
}
