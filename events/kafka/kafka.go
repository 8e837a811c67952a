// Package kafka delivers events to a topic of Kafka, or of a broker with the same protocol.
//
// It owns the connections to the brokers, and decides what their answers mean for an event.
// A relay (events.Run) passes the events of a crawl to a sink of this package. The relay's
// cursor is its position in these events. Without a transactional id, events can be repeated
// after a crash of the relay. With a transactional id, each transaction contains events and
// the relay's cursor. Then consumers that read only committed records see each event once.
// The relay decides when a delivery is tried again.
package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/bloomfrontier/crawler/events"
)

// Config configures a sink. Brokers is required.
type Config struct {
	Brokers []string // addresses of some brokers, each HOST:PORT
	Topic   string   // empty means "crawler"
	// Create creates missing topics: Topic, with the brokers' default number of
	// partitions and replicas, and the topic of cursors.
	Create bool
	// TransactionalID makes the sink transactional. Each relay process needs its own id,
	// because two processes with the same id abort each other's transactions.
	TransactionalID string
	// CursorTopic is the compacted topic of cursors. Only a relay with a TransactionalID
	// uses it. Empty means Topic followed by "-cursors".
	CursorTopic string
	TLS         *tls.Config   // nil means that connections are not encrypted
	User        *url.Userinfo // nil means no login
	// SASL is how User logs in: "plain", which needs TLS, "scram-sha-256" or
	// "scram-sha-512". Empty means "scram-sha-512".
	SASL string
	// Compression is the codec of batches: one of Codecs. Empty means "gzip", which the clients of all languages read
	// without a further library.
	Compression string
	// Timeout limits the time of a transaction or, without transactions, the time until an
	// acknowledgement. 0 means 30 s.
	Timeout time.Duration
}

// codecs are the codecs of batches, by name.
var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// Codecs returns the names of the codecs, sorted.
func Codecs() []string { return slices.Sorted(maps.Keys(codecs)) }

// New returns a sink. It is an events.TransactionalSink if cfg has a TransactionalID. New
// makes no connection. An error describes a fault of cfg.
func New(cfg Config) (events.Sink, error) {
	cfg.Topic, cfg.Timeout = cmp.Or(cfg.Topic, "crawler"), cmp.Or(cfg.Timeout, 30*time.Second)
	cfg.CursorTopic = cmp.Or(cfg.CursorTopic, cfg.Topic+"-cursors")
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("kafka: Timeout is %v, want 0 or more", cfg.Timeout)
	}
	c := &cluster{Config: cfg}
	if err := c.options(); err != nil {
		return nil, err
	}
	if cfg.TransactionalID != "" {
		return &transactions{cluster: c, last: make(map[string]position), doubt: make(map[string]bool)}, nil
	}
	client, err := kgo.NewClient(c.opt...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return &producer{cluster: c, client: client, pending: make(map[string]*delivery)}, nil
}

// cluster has the fields that both types of sink (producer and transactions) need.
type cluster struct {
	Config
	opt []kgo.Opt // the options of each client

	mu     sync.Mutex
	made   bool  // the topics exist
	failed error // the error of the last attempt to connect; nil if that succeeded
}

// options checks the settings and sets the options of clients.
func (c *cluster) options() error {
	if len(c.Brokers) == 0 {
		return errors.New("kafka: no broker is named")
	}
	for _, broker := range c.Brokers {
		if _, _, err := net.SplitHostPort(broker); err != nil {
			return fmt.Errorf("kafka: address of a broker: %w", err)
		}
	}
	codec, known := codecs[cmp.Or(c.Compression, "gzip")]
	if !known {
		return fmt.Errorf("kafka: Compression is %q, want one of %s", c.Compression, strings.Join(Codecs(), ", "))
	}
	c.opt = []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...), kgo.ClientID("crawler-relay"), kgo.DefaultProduceTopic(c.Topic),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RetryBackoffFn(backoff), kgo.WithHooks(c),
		kgo.ProducerBatchCompression(codec),
	}
	if c.TLS != nil {
		c.opt = append(c.opt, kgo.DialTLSConfig(c.TLS))
	}
	if c.User == nil {
		return nil
	}
	password, _ := c.User.Password()
	login := scram.Auth{User: c.User.Username(), Pass: password}
	switch c.SASL {
	case "plain":
		if c.TLS == nil {
			return errors.New("kafka: SASL plain without TLS shows the password to others: use TLS or scram-sha-512")
		}
		c.opt = append(c.opt, kgo.SASL(plain.Auth{User: login.User, Pass: login.Pass}.AsMechanism()))
	case "scram-sha-256":
		c.opt = append(c.opt, kgo.SASL(login.AsSha256Mechanism()))
	case "", "scram-sha-512":
		c.opt = append(c.opt, kgo.SASL(login.AsSha512Mechanism()))
	default:
		return errors.New("kafka: SASL is unknown, want plain, scram-sha-256 or scram-sha-512")
	}
	return nil
}

// backoff returns how long the client waits before its n-th attempt. If all attempts fail,
// the relay also waits before it sends the event again.
func backoff(n int) time.Duration {
	return min(100*time.Millisecond<<min(n, 10), 2*time.Second)
}

// OnBrokerConnect implements kgo.HookBrokerConnect. It stores why the last attempt to
// connect failed.
func (c *cluster) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = err
}

// away returns the error of events that were not acknowledged. The argument err is the reason.
// The result also has the reason why the last attempt to connect failed, if it failed.
func (c *cluster) away(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		err = fmt.Errorf("%w: %w", err, c.failed)
	}
	return &events.AwayError{Err: err}
}

// verdict returns the error that Send returns for an event. The argument is the error of the
// attempt to produce the event, or nil.
func (c *cluster) verdict(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return &events.RefusedError{Reason: fmt.Sprintf("the event is larger than topic %s allows (max.message.bytes), or than 1 MB", c.Topic)}
	case errors.Is(err, kerr.InvalidRecord):
		return &events.RefusedError{Reason: fmt.Sprintf("topic %s refuses the event: %v", c.Topic, err)}
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		err = fmt.Errorf("topic %s is missing: create it: %w", c.Topic, err)
	}
	return c.away(err)
}

// ensure creates the topics once, if Config.Create is set.
func (c *cluster) ensure(ctx context.Context, client *kgo.Client) error {
	c.mu.Lock()
	made := c.made || !c.Create
	c.mu.Unlock()
	if made {
		return nil
	}
	admin := kadm.NewClient(client)
	if err := c.make(ctx, admin, c.Topic, -1, nil); err != nil {
		return err
	}
	if c.TransactionalID != "" {
		compact := "compact"
		if err := c.make(ctx, admin, c.CursorTopic, 1, map[string]*string{"cleanup.policy": &compact}); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = true
	return nil
}

func (c *cluster) make(ctx context.Context, admin *kadm.Client, topic string, partitions int32, config map[string]*string) error {
	_, err := admin.CreateTopic(ctx, partitions, -1, config, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return c.away(fmt.Errorf("make topic %s: %w", topic, err))
	}
	return nil
}

// record returns an event as a Kafka record. The key keeps the events of a host in one
// partition, in order.
func record(e *events.Event) (*kgo.Record, error) {
	text, err := e.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return &kgo.Record{
		Key: []byte(e.Host), Value: text,
		Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/cloudevents+json")}},
	}, nil
}
