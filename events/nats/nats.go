// Package nats delivers events to a stream of NATS JetStream.
//
// It owns the connection, and decides what each answer of the server means for an event.
// Each message has the event's id as its Nats-Msg-Id. The stream drops a message if it has
// received another one with the same id within its duplicate window. The relay (events.Run)
// decides when a delivery is tried again.
package nats

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bloomfrontier/crawler/events"
)

// Config configures a Sink. Servers is required.
type Config struct {
	Servers []string      // addresses of one or more servers of a cluster, each HOST:PORT
	User    *url.Userinfo // nil means no login
	// Stream is the stream's name; empty means "crawler". The subject of an event
	// is the stream's name, a dot and the event's type, as in crawler.page.done.
	Stream string
	// Create creates the stream, with the subjects STREAM.>, if it is missing. An existing
	// stream stays unchanged.
	Create bool
	// Window is the duplicate window of a stream that the sink creates; 0 means 1 h.
	Window time.Duration
	// CredentialsFile has the user's token and key, as nsc writes them; empty means none.
	CredentialsFile string
	TLS             *tls.Config // nil means no encryption, unless the server requires it
	// Outstanding is the maximum number of messages without an acknowledgement; 0 means
	// 256.
	Outstanding int
	Timeout     time.Duration // longest time until an acknowledgement; 0 means 30 s
}

// Sink publishes events to one stream. It is safe for concurrent use.
type Sink struct {
	cfg    Config
	conn   *client.Conn
	stream jetstream.JetStream

	duplicates atomic.Uint64

	mu     sync.Mutex
	made   bool                    // the stream exists, and keeps events
	config *jetstream.StreamConfig // of the stream when it was last looked at; nil if that was not possible
	failed error                   // the error of the last attempt to connect
}

var (
	_ events.DuplicatesSink = (*Sink)(nil)
	_ events.WarningSink    = (*Sink)(nil)
)

var validStream = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// New returns a sink. It succeeds even if no server answers. In that case the sink keeps
// trying to connect. An error describes a fault of cfg.
func New(cfg Config) (*Sink, error) {
	cfg.Stream, cfg.Window = cmp.Or(cfg.Stream, "crawler"), cmp.Or(cfg.Window, time.Hour)
	cfg.Outstanding, cfg.Timeout = cmp.Or(cfg.Outstanding, 256), cmp.Or(cfg.Timeout, 30*time.Second)
	switch {
	case len(cfg.Servers) == 0:
		return nil, errors.New("nats: no server is named")
	case !validStream.MatchString(cfg.Stream):
		return nil, fmt.Errorf("nats: the stream's name is %q, want letters, digits, dashes and underscores", cfg.Stream)
	case cfg.Window < 0 || cfg.Outstanding < 0 || cfg.Timeout < 0:
		return nil, fmt.Errorf("nats: Window is %v, Outstanding %d, Timeout %v, want 0 or more", cfg.Window, cfg.Outstanding, cfg.Timeout)
	}
	opt := client.GetDefaultOptions()
	opt.Name, opt.Timeout, opt.PingInterval = "crawler relay", 5*time.Second, 20*time.Second
	opt.MaxReconnect, opt.ReconnectWait = -1, 250*time.Millisecond
	opt.RetryOnFailedConnect, opt.IgnoreAuthErrorAbort = true, true
	opt.ReconnectBufSize = -1 // without a connection, publishing fails at once; the relay sends the event again
	opt.Secure, opt.TLSConfig = cfg.TLS != nil, cfg.TLS
	for _, server := range cfg.Servers {
		if _, _, err := net.SplitHostPort(server); err != nil {
			return nil, fmt.Errorf("nats: address of a server: %w", err)
		}
		opt.Servers = append(opt.Servers, "nats://"+server)
	}
	if cfg.User != nil {
		opt.User = cfg.User.Username()
		opt.Password, _ = cfg.User.Password()
	}
	if cfg.CredentialsFile != "" {
		if _, err := os.Stat(cfg.CredentialsFile); err != nil {
			return nil, fmt.Errorf("nats: credentials: %w", err)
		}
		if err := client.UserCredentials(cfg.CredentialsFile)(&opt); err != nil {
			return nil, fmt.Errorf("nats: credentials: %w", err)
		}
	}
	s := &Sink{cfg: cfg}
	opt.ReconnectErrCB = func(_ *client.Conn, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failed = err
	}
	var err error
	if s.conn, err = opt.Connect(); err != nil {
		return nil, fmt.Errorf("nats: connect: %w", err)
	}
	s.stream, err = jetstream.New(s.conn, jetstream.WithPublishAsyncMaxPending(cfg.Outstanding), jetstream.WithPublishAsyncTimeout(cfg.Timeout))
	if err != nil {
		s.conn.Close()
		return nil, fmt.Errorf("nats: %w", err)
	}
	return s, nil
}

// Close implements events.Sink.
func (s *Sink) Close() error {
	s.conn.Close()
	return nil
}

// Duplicates implements events.DuplicatesSink. The server compares the ids of events within the stream's duplicate window,
// also with those of events that the stream has no more, after a purge, or because no consumer was interested in them.
func (s *Sink) Duplicates() uint64 { return s.duplicates.Load() }

// Warnings implements events.WarningSink. It knows the settings of the stream since the first call of Send, unless the user
// has no right to read them.
func (s *Sink) Warnings(behind time.Duration) (warnings []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil {
		return nil
	}
	warn := func(format string, args ...any) {
		warnings = append(warnings, fmt.Sprintf("stream %s "+format, append([]any{s.cfg.Stream}, args...)...))
	}
	if s.config.PersistMode == jetstream.AsyncPersistMode {
		warn("acknowledges events before it stores them (persist_mode: async): those of the last moments are lost if its server is killed")
	}
	if len(s.config.Sources) > 0 || s.config.Mirror != nil {
		warn("copies another stream (sources, mirror): of two events with one id, from the relay and from there, it keeps one or both")
	}
	switch window := s.config.Duplicates; {
	case window == 0:
		warn("has no duplicate window: an event that is sent again is stored again")
	case behind > window:
		warn("has a duplicate window of %v, and the relay was further behind when it went on: events that it had sent before the interruption can be stored again", window)
	}
	return warnings
}

// Send implements events.Sink.
func (s *Sink) Send(ctx context.Context, batch []events.Event) []error {
	if err := s.ensure(ctx); err != nil {
		return slices.Repeat([]error{err}, len(batch))
	}
	errs, answers := make([]error, len(batch)), make([]jetstream.PubAckFuture, len(batch))
	for i := range batch {
		answers[i], errs[i] = s.publish(&batch[i])
	}
	for i, answer := range answers {
		if errs[i] != nil {
			errs[i] = s.verdict(errs[i])
			continue
		}
		select {
		case ack := <-answer.Ok():
			if ack.Duplicate {
				s.duplicates.Add(1)
			}
		case err := <-answer.Err():
			errs[i] = s.verdict(err)
		case <-ctx.Done():
			errs[i] = &events.AwayError{Err: ctx.Err()}
		}
	}
	return errs
}

func (s *Sink) publish(e *events.Event) (jetstream.PubAckFuture, error) {
	text, err := e.MarshalJSON()
	if err != nil {
		return nil, err
	}
	m := &client.Msg{
		Subject: s.cfg.Stream + "." + e.Type, Data: text,
		Header: client.Header{"Content-Type": {"application/cloudevents+json"}},
	}
	return s.stream.PublishMsgAsync(m, jetstream.WithMsgID(e.ID), jetstream.WithExpectStream(s.cfg.Stream),
		jetstream.WithStallWait(s.cfg.Timeout))
}

const interestTime = 2 * time.Second

// ensure creates the stream once, if Config.Create is set. It returns an error while there
// is no connection, and while the stream would keep no event.
func (s *Sink) ensure(ctx context.Context) error {
	if !s.conn.IsConnected() {
		return s.disconnected()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if !s.cfg.Create {
		return s.checkInterest(ctx)
	}
	_, err := s.stream.CreateStream(ctx, jetstream.StreamConfig{
		Name: s.cfg.Stream, Subjects: []string{s.cfg.Stream + ".>"}, Duplicates: s.cfg.Window,
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return &events.AwayError{Err: fmt.Errorf("make stream %s: %w", s.cfg.Stream, err)}
	}
	return s.checkInterest(ctx)
}

// checkInterest returns an error if the stream acknowledges events and keeps none, because it keeps only those in which a
// consumer is interested, and it has no consumer. Otherwise it sets made, also if the server does not say within
// interestTime: publishing tells what is wrong, and a user without the right to ask gets no answer.
func (s *Sink) checkInterest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, interestTime)
	defer cancel()
	stream, err := s.stream.Stream(ctx, s.cfg.Stream)
	if err != nil {
		s.made = true
		return nil
	}
	info := stream.CachedInfo()
	s.config = &info.Config
	if info.Config.Retention == jetstream.InterestPolicy && info.State.Consumers == 0 {
		return &events.AwayError{Err: fmt.Errorf("stream %s keeps only events in which a consumer is interested, and it has no consumer: create one first", s.cfg.Stream)}
	}
	s.made = true
	return nil
}

// verdict returns the error that Send returns for an event. The argument is the error of the
// attempt to publish the event.
func (s *Sink) verdict(err error) error {
	answer, _ := errors.AsType[jetstream.JetStreamError](err)
	switch {
	case errors.Is(err, client.ErrMaxPayload):
		return &events.RefusedError{Reason: fmt.Sprintf("the event is larger than the server's limit of %d bytes (max_payload)", s.conn.MaxPayload())}
	case answer != nil && answer.APIError() != nil && answer.APIError().ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return &events.RefusedError{Reason: "the event is larger than the stream's limit (max_msg_size)"}
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, client.ErrNoResponders):
		s.mu.Lock()
		s.made = false
		s.mu.Unlock()
		err = fmt.Errorf("no stream takes %[1]s.page.done: create stream %[1]s with the subjects %[1]s.>: %[2]w", s.cfg.Stream, err)
	case errors.Is(err, client.ErrReconnectBufExceeded), errors.Is(err, client.ErrConnectionReconnecting), errors.Is(err, client.ErrDisconnected):
		return s.disconnected()
	}
	return &events.AwayError{Err: err}
}

// disconnected returns the error of an event that was not sent because there was no
// connection.
func (s *Sink) disconnected() error {
	err := errors.New("no connection to a server")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		err = fmt.Errorf("%w: %w", err, s.failed)
	}
	return &events.AwayError{Err: err}
}
