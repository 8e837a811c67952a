// Package sqs delivers events to a FIFO queue of Amazon SQS.
//
// It owns the requests to SQS, and decides what each answer means for an event. The events of a host are a message group,
// so that they are received in order. The id of an event is its deduplication id: within five minutes after a message,
// the queue drops others with the same id. The relay (events.Run) decides when a delivery is tried again.
package sqs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	client "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/bloomfrontier/crawler/events"
)

// Config configures a Sink. QueueURL and Credentials are required.
type Config struct {
	QueueURL    string // as SQS writes it, such as https://sqs.eu-west-1.amazonaws.com/123456789012/pages.fifo
	Region      string // empty means that of QueueURL
	Credentials aws.CredentialsProvider
	Create      bool          // create the queue if it is missing
	TLS         *tls.Config   // nil means the authorities of the system
	Timeout     time.Duration // longest time until an acknowledgement; 0 means 30 s
}

// Sink sends events to one queue. It is safe for concurrent use.
type Sink struct {
	cfg    Config
	client *client.Client

	mu   sync.Mutex
	made bool // the queue exists
}

var _ events.WarningSink = (*Sink)(nil)

// regionOf matches the hosts of SQS, of which it captures the region.
var regionOf = regexp.MustCompile(`^sqs\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$`)

// New returns a sink. It makes no connection. An error describes a fault of cfg.
func New(cfg Config) (*Sink, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, 30*time.Second)
	queue, err := url.Parse(cfg.QueueURL)
	switch {
	case err != nil || queue.Host == "" || queue.Scheme != "https" && queue.Scheme != "http":
		return nil, errors.New("sqs: want the URL of a queue, https://sqs.REGION.amazonaws.com/ACCOUNT/QUEUE.fifo")
	case !strings.HasSuffix(queue.Path, ".fifo"):
		return nil, fmt.Errorf("sqs: queue %q is no FIFO queue, whose name ends with .fifo: another would store repeats, and mix the events of a host",
			path.Base(queue.Path))
	case cfg.Credentials == nil:
		return nil, errors.New("sqs: Credentials is nil")
	case cfg.Timeout < 0:
		return nil, fmt.Errorf("sqs: Timeout is %v, want 0 or more", cfg.Timeout)
	}
	if found := regionOf.FindStringSubmatch(queue.Hostname()); cfg.Region == "" && found != nil {
		cfg.Region = found[1]
	}
	if cfg.Region == "" {
		return nil, fmt.Errorf("sqs: the region of %s is not known: name it", queue.Host)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = cfg.TLS
	return &Sink{cfg: cfg, client: client.New(client.Options{
		Region: cfg.Region, BaseEndpoint: aws.String(queue.Scheme + "://" + queue.Host), Credentials: cfg.Credentials,
		HTTPClient: &http.Client{Transport: transport}, Retryer: aws.NopRetryer{}, // the relay tries again
	})}, nil
}

// Close implements events.Sink.
func (s *Sink) Close() error {
	s.client.Options().HTTPClient.(*http.Client).CloseIdleConnections()
	return nil
}

// dropsRepeats is the time within which a FIFO queue drops messages with a deduplication id that it knows.
const dropsRepeats = 5 * time.Minute

// Warnings implements events.WarningSink.
func (s *Sink) Warnings(behind time.Duration) []string {
	if behind <= dropsRepeats {
		return nil
	}
	return []string{fmt.Sprintf("queue %s drops repeats for %v only, and the relay was further behind when it went on: events that it had "+
		"sent before the interruption can be there twice", path.Base(s.cfg.QueueURL), dropsRepeats)}
}

const (
	batchEntries = 10        // messages in one request
	batchBytes   = 256 << 10 // sum of their lengths, in all regions
)

// Send implements events.Sink.
func (s *Sink) Send(ctx context.Context, batch []events.Event) []error {
	errs := make([]error, len(batch))
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := s.ensure(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	var requests sync.WaitGroup
	var entries []types.SendMessageBatchRequestEntry
	size := 0
	flush := func() {
		if full := entries; len(full) > 0 {
			requests.Go(func() { s.post(ctx, full, errs) })
		}
		entries, size = nil, 0
	}
	for i := range batch {
		text, err := batch[i].MarshalJSON()
		if err != nil {
			errs[i] = &events.RefusedError{Reason: err.Error()}
			continue
		}
		if len(entries) == batchEntries || size+len(text) > batchBytes {
			flush()
		}
		entries, size = append(entries, types.SendMessageBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(string(text)),
			MessageGroupId: aws.String(token(batch[i].Host)), MessageDeduplicationId: aws.String(token(batch[i].ID)),
		}), size+len(text)
	}
	flush()
	requests.Wait()
	return errs
}

// token returns text as a group id or deduplication id, which has 1 to 128 visible ASCII characters.
func token(text string) string {
	if text != "" && len(text) <= 128 && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// post sends entries in one request. The id of an entry is its index in errs.
func (s *Sink) post(ctx context.Context, entries []types.SendMessageBatchRequestEntry, errs []error) {
	set := func(id *string, err error) {
		if i, wrong := strconv.Atoi(aws.ToString(id)); wrong == nil && i >= 0 && i < len(errs) {
			errs[i] = err
		}
	}
	answer, err := s.client.SendMessageBatch(ctx, &client.SendMessageBatchInput{QueueUrl: &s.cfg.QueueURL, Entries: entries})
	for _, e := range entries {
		switch _, long := errors.AsType[*types.BatchRequestTooLong](err); {
		case long && len(entries) == 1:
			set(e.Id, &events.RefusedError{Reason: "the event is larger than the limit of the queue"})
		case err != nil:
			set(e.Id, s.away(err))
		default:
			set(e.Id, &events.AwayError{Err: errors.New("the answer does not mention the event")})
		}
	}
	if err != nil {
		return
	}
	for _, stored := range answer.Successful {
		set(stored.Id, nil)
	}
	for _, failed := range answer.Failed {
		reason := aws.ToString(failed.Code) + ": " + aws.ToString(failed.Message)
		if failed.SenderFault && strings.HasPrefix(aws.ToString(failed.Code), "Invalid") {
			set(failed.Id, &events.RefusedError{Reason: reason})
		} else {
			set(failed.Id, &events.AwayError{Err: errors.New(reason)})
		}
	}
}

// ensure creates the queue once, if Config.Create is set.
func (s *Sink) ensure(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made || !s.cfg.Create {
		return nil
	}
	_, err := s.client.CreateQueue(ctx, &client.CreateQueueInput{
		QueueName: aws.String(path.Base(s.cfg.QueueURL)), Attributes: map[string]string{"FifoQueue": "true"},
	})
	if _, exists := errors.AsType[*types.QueueNameExists](err); err != nil && !exists { // it can have other attributes
		return &events.AwayError{Err: fmt.Errorf("make queue %s: %w", path.Base(s.cfg.QueueURL), err)}
	}
	s.made = true
	return nil
}

// away returns the error of events whose request failed.
func (s *Sink) away(err error) error {
	if _, missing := errors.AsType[*types.QueueDoesNotExist](err); missing {
		s.mu.Lock()
		s.made = false
		s.mu.Unlock()
		err = fmt.Errorf("there is no queue %s: create it, or give --create: %w", path.Base(s.cfg.QueueURL), err)
	}
	return &events.AwayError{Err: err}
}
