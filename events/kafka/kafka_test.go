package kafka_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/events/kafka"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/internal/testkit/servers/kfake"
)

var seedFlag = flag.Uint64("seed", 0, "run random tests with this seed")

func TestMain(m *testing.M) {
	kfake.Main()
	flag.Parse()
	os.Exit(m.Run())
}

func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("run it again with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func open(t *testing.T, cfg kafka.Config) events.Sink {
	t.Helper()
	sink, err := kafka.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

// consumed returns the events of a topic that a consumer of committed records reads. The
// events of a partition are in order.
func consumed(t *testing.T, server *servers.KafkaServer, topic string) []events.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(server.Addr()), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	left := make(map[int32]bool) // partitions whose mark is not read yet
	for partition := range topics[topic].Partitions {
		mark := &kgo.Record{Topic: topic, Partition: partition, Value: []byte("mark")}
		if err := client.ProduceSync(ctx, mark).FirstErr(); err != nil {
			t.Fatal(err)
		}
		left[partition] = true
	}
	var all []events.Event
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := errors.Join(fetches.Err(), ctx.Err()); err != nil {
			t.Fatalf("%v; partitions that are not read to the end: %v", err, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Value) == "mark" {
				delete(left, r.Partition)
				return
			}
			var e events.Event
			if err := json.Unmarshal(r.Value, &e); err != nil {
				t.Fatal(err)
			}
			if string(r.Key) != e.Host || len(r.Headers) != 1 || string(r.Headers[0].Value) != "application/cloudevents+json" {
				t.Errorf("event %s has key %s and headers %v, want its host as key and only the content type", e.ID, r.Key, r.Headers)
			}
			all = append(all, e)
		})
	}
	return all
}

func TestContract(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "relay-1"} {
		t.Run("id="+id, func(t *testing.T) {
			eventstest.RunSink(t, func(t *testing.T) eventstest.SinkUnderTest {
				server := kfake.Start(t, kfake.Options{})
				return eventstest.SinkUnderTest{
					Sink:     open(t, kafka.Config{Brokers: []string{server.Addr()}, Create: true, TransactionalID: id}),
					Received: func() []events.Event { return consumed(t, server, "crawler") },
				}
			})
		})
	}
}

// between is a sink that calls a function before each commit, that is, between two
// transactions.
type between struct {
	events.TransactionalSink
	call func()
}

func (s between) Commit(ctx context.Context, key string, batch []events.Event, cursor events.Cursor) error {
	s.call()
	return s.TransactionalSink.Commit(ctx, key, batch, cursor)
}

// plain is a sink that reports each call of Send to a test.
type plain struct {
	events.Sink
	called chan<- struct{}
}

func (s plain) Send(ctx context.Context, batch []events.Event) []error {
	select {
	case s.called <- struct{}{}:
	default:
	}
	return s.Sink.Send(ctx, batch)
}

// TestKilledBroker: although the broker is killed repeatedly, every event arrives once, and
// the events of each host in order.
func TestKilledBroker(t *testing.T) {
	t.Parallel()
	const all, hosts, kills = 2000, 20, 3
	random := newRandom(t)
	server := kfake.Start(t, kfake.Options{})
	outbox := filled(all, hosts)
	sink := open(t, kafka.Config{Brokers: []string{server.Addr()}, Create: true, Timeout: 2 * time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	called, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- events.Run(ctx, events.Config{
			Name: "r", Outbox: outbox, Sink: plain{sink, called}, Progress: new(eventstest.Progress), Outstanding: 50,
		}, true)
	}()
	for range kills {
		await(called, done, 1+random.IntN(10))
		restart(t, server)
	}
	if err := <-done; err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	eventstest.CheckOnce(t, consumed(t, server, "crawler"), 0, all, hosts)
}

func filled(all, hosts int) *eventstest.Outbox {
	outbox := new(eventstest.Outbox)
	for n := range all {
		outbox.Append(eventstest.Event(n, hosts))
	}
	return outbox
}

func restart(t *testing.T, server *servers.KafkaServer) {
	t.Helper()
	if err := errors.Join(server.Kill(), server.Restart()); err != nil {
		t.Fatal(err)
	}
}

// TestKilledTransactions: the relay ends in the middle of transactions and loses its
// cursor, and the broker is killed between transactions. A consumer of committed records
// still reads every event once and in order.
//
// The broker is not killed in the middle of a transaction. After such a kill, kfake would
// abort the transaction without the marker that a Kafka broker writes to its log. Consumers
// would then skip all later records of the producer.
func TestKilledTransactions(t *testing.T) {
	t.Parallel()
	const all, hosts, lives = 1500, 20, 8
	random := newRandom(t)
	server := kfake.Start(t, kfake.Options{})
	outbox := filled(all, hosts)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	kills := 0
	for life := range lives {
		sink, err := kafka.New(kafka.Config{
			Brokers: []string{server.Addr()}, Create: true, TransactionalID: "relay-1", Timeout: 10 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		run, stop := context.WithCancel(ctx)
		commits, kill, end := 0, random.IntN(8), 1+random.IntN(12)
		later := time.Duration(random.IntN(5000)) * time.Microsecond
		call := func() {
			if commits++; commits == kill {
				kills++
				restart(t, server)
			}
			if commits == end && life < lives-1 {
				time.AfterFunc(later, stop) // at any moment of a transaction, or after it
			}
		}
		err = events.Run(run, events.Config{
			Name: "r", Outbox: outbox, Sink: between{sink.(events.TransactionalSink), call},
			Progress: new(eventstest.Progress), Outstanding: 10,
		}, true)
		stop()
		if err := errors.Join(err, sink.Close()); err != nil || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
	}
	t.Logf("the broker was killed %d times", kills)
	eventstest.CheckOnce(t, consumed(t, server, "crawler"), 0, all, hosts)
}

// await waits for n calls, or until the relay has ended.
func await(called <-chan struct{}, done chan error, n int) {
	for range n {
		select {
		case <-called:
		case err := <-done:
			done <- err
			return
		}
	}
}

// TestCommitInDoubt: commits whose context ends at any moment are repeated, and each event
// still arrives once.
func TestCommitInDoubt(t *testing.T) {
	t.Parallel()
	const all = 60
	server := kfake.Start(t, kfake.Options{})
	cfg := kafka.Config{Brokers: []string{server.Addr()}, Create: true, TransactionalID: "relay-1", Timeout: 20 * time.Second}
	sink := open(t, cfg).(events.TransactionalSink)
	if _, known, err := sink.Committed(t.Context(), "r"); err != nil || known {
		t.Fatalf("Committed of a new key: known %v, error %v; want false and none", known, err)
	}
	commit := func(ctx context.Context, n int) error {
		return sink.Commit(ctx, "r", []events.Event{eventstest.Event(n, 1)}, events.Cursor(strconv.Itoa(n+1)))
	}
	takes := time.Duration(0) // how long a commit takes
	left := 0
	for n := range all {
		if n%2 == 0 {
			begun := time.Now()
			if err := commit(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			takes = time.Since(begun)
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), takes*time.Duration(n)/all)
		err := commit(ctx, n)
		for cancel(); err != nil; err = commit(t.Context(), n) {
			left++
		}
	}
	t.Logf("%d commits failed and were repeated", left)
	eventstest.CheckOnce(t, consumed(t, server, "crawler"), 0, all, 1)
	if at, known, err := sink.Committed(t.Context(), "r"); at != events.Cursor(strconv.Itoa(all)) || !known || err != nil {
		t.Errorf("Committed = %q, %v, %v; want %d, true and no error", at, known, err, all)
	}
	if at, known, err := sink.Committed(t.Context(), "other"); known || err != nil {
		t.Errorf("Committed of another key = %q, %v, %v; want false and no error", at, known, err)
	}
}

// TestMoved: after another process has moved the relay's cursor, the relay commits nothing.
func TestMoved(t *testing.T) {
	t.Parallel()
	server := kfake.Start(t, kfake.Options{})
	cfg := kafka.Config{Brokers: []string{server.Addr()}, Create: true, TransactionalID: "relay-1", Timeout: 20 * time.Second}
	first, second := open(t, cfg).(events.TransactionalSink), open(t, cfg).(events.TransactionalSink)
	commit := func(sink events.TransactionalSink, n int, cursor events.Cursor) error {
		return sink.Commit(t.Context(), "r", []events.Event{eventstest.Event(n, 1)}, cursor)
	}
	if _, _, err := first.Committed(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	if err := commit(first, 0, "1"); err != nil {
		t.Fatal(err)
	}
	if at, _, err := second.Committed(t.Context(), "r"); err != nil || at != "1" {
		t.Fatalf("Committed by the second relay = %q, error %v; want 1", at, err)
	}
	if err := commit(second, 1, "2"); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		err := commit(first, 1, "2b")
		if _, away := errors.AsType[*events.AwayError](err); !away {
			t.Fatalf("Commit by the first relay after the second has committed: error %v, want an AwayError", err)
		}
		if n == 0 && !strings.Contains(err.Error(), `another process uses the transactional id "relay-1": give each process its own`) {
			t.Errorf("Commit by the first relay: error %v, which does not say what another process did", err)
		}
	}
	if err := commit(first, 1, "2b"); err == nil || !strings.Contains(err.Error(), "another process has moved") {
		t.Errorf("Commit by the first relay: error %v, which does not say what another process did", err)
	}
	if got := len(consumed(t, server, "crawler")); got != 2 {
		t.Errorf("the topic has %d events, want 2", got)
	}
}

// TestRefused: an event that is too large is refused for good. Other events are
// accepted.
func TestRefused(t *testing.T) {
	t.Parallel()
	server := kfake.Start(t, kfake.Options{})
	batch := []events.Event{eventstest.Event(0, 2), eventstest.Event(1, 2)}
	batch[1].Data = json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)
	cfg := kafka.Config{Brokers: []string{server.Addr()}, Create: true}
	errs := open(t, cfg).Send(t.Context(), batch)
	if _, refused := errors.AsType[*events.RefusedError](errs[1]); !refused || errs[0] != nil {
		t.Errorf("Send: errors %v, want only the second event refused", errs)
	}
	cfg.TransactionalID, cfg.Topic = "relay-1", "t"
	sink := open(t, cfg).(events.TransactionalSink)
	err := sink.Commit(t.Context(), "r", batch, "2")
	if _, refused := errors.AsType[*events.RefusedError](err); !refused {
		t.Errorf("Commit of both events: error %v, want a RefusedError", err)
	}
	if err := sink.Commit(t.Context(), "r", batch[:1], "1"); err != nil {
		t.Error(err)
	}
	if got := consumed(t, server, "t"); len(got) != 1 || got[0].ID != batch[0].ID {
		t.Errorf("the topic has the events %v, want only %s", eventstest.IDs(got), batch[0].ID)
	}
}

// TestAway: the sink is unavailable while the broker is down, and works again after that.
func TestAway(t *testing.T) {
	t.Parallel()
	server := kfake.Start(t, kfake.Options{})
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	batch := []events.Event{eventstest.Event(0, 1)}
	cfg := kafka.Config{Brokers: []string{server.Addr()}, Timeout: 500 * time.Millisecond}
	sink := open(t, cfg)
	expect := func(err error, want string) {
		t.Helper()
		if _, away := errors.AsType[*events.AwayError](err); !away || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want an AwayError with %q", err, want)
		}
	}
	expect(sink.Send(t.Context(), batch)[0], "connection refused")
	cfg.TransactionalID = "relay-1"
	transactional := open(t, cfg).(events.TransactionalSink)
	_, _, err := transactional.Committed(t.Context(), "r")
	expect(err, "connection refused")
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	cfg.Create, cfg.Timeout = true, time.Minute
	if _, known, err := open(t, cfg).(events.TransactionalSink).Committed(t.Context(), "r"); known || err != nil {
		t.Fatal(known, err)
	}
	for ends := time.Now().Add(time.Minute); sink.Send(t.Context(), batch)[0] != nil; {
		if time.Now().After(ends) {
			t.Fatal("Send fails for a minute after the broker was started")
		}
	}
	if got := consumed(t, server, "crawler"); len(got) != 1 {
		t.Errorf("the topic has %d events, want 1", len(got))
	}
}

func TestMissingTopic(t *testing.T) {
	t.Parallel()
	server := kfake.Start(t, kfake.Options{})
	sink := open(t, kafka.Config{Brokers: []string{server.Addr()}})
	err := sink.Send(t.Context(), []events.Event{eventstest.Event(0, 1)})[0]
	if _, away := errors.AsType[*events.AwayError](err); !away || !strings.Contains(err.Error(), "topic crawler is missing: create it") {
		t.Error(err)
	}
}

// TestStopped: if the relay is stopped while an event is under way, the error says why the
// brokers did not accept the event.
func TestStopped(t *testing.T) {
	t.Parallel()
	server := kfake.Start(t, kfake.Options{})
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Second, func() { stop(errors.New("terminated signal received")) })
	err := open(t, kafka.Config{Brokers: []string{server.Addr()}}).Send(ctx, []events.Event{eventstest.Event(0, 1)})[0]
	if err == nil || strings.Contains(err.Error(), "signal") || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
}

// TestConnections: a broker with TLS accepts events only from a client that trusts the
// broker's certificate. A broker with a password accepts them only from a client that logs
// in. The test uses each login method.
func TestConnections(t *testing.T) {
	t.Parallel()
	batch, user := []events.Event{eventstest.Event(0, 1)}, url.UserPassword("relay", "s3cret")
	for name, tc := range map[string]struct {
		server kfake.Options
		cfg    kafka.Config
		away   string // text in the error; empty means that the event is accepted
	}{
		"scram":        {kfake.Options{Password: "s3cret"}, kafka.Config{User: user, SASL: "scram-sha-256"}, ""},
		"wrong":        {kfake.Options{Password: "s3cret"}, kafka.Config{User: url.UserPassword("relay", "wr0ng")}, "make topic crawler: "},
		"tls":          {kfake.Options{TLS: true}, kafka.Config{TLS: kfake.Trust()}, ""},
		"not trusted":  {kfake.Options{TLS: true}, kafka.Config{TLS: new(tls.Config)}, "certificate signed by unknown authority"},
		"plain":        {kfake.Options{TLS: true, Password: "s3cret"}, kafka.Config{TLS: kfake.Trust(), User: user, SASL: "plain"}, ""},
		"wrong plain":  {kfake.Options{TLS: true, Password: "s3cret"}, kafka.Config{TLS: kfake.Trust(), User: url.UserPassword("relay", "wr0ng"), SASL: "plain"}, "make topic crawler: "},
		"scram by tls": {kfake.Options{TLS: true, Password: "s3cret"}, kafka.Config{TLS: kfake.Trust(), User: user}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := tc.cfg
			cfg.Brokers, cfg.Create, cfg.Timeout = []string{kfake.Start(t, tc.server).Addr()}, true, 20*time.Second
			if tc.away != "" {
				cfg.Timeout = 5 * time.Second
			}
			err := open(t, cfg).Send(t.Context(), batch)[0]
			_, away := errors.AsType[*events.AwayError](err)
			if away != (tc.away != "") || away && (!strings.Contains(err.Error(), tc.away) || strings.Contains(err.Error(), "wr0ng")) {
				t.Errorf("Send: error %v, want an AwayError with %q, or none if that is empty; no password", err, tc.away)
			}
		})
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	user := url.UserPassword("relay", "s3cret")
	for want, cfg := range map[string]kafka.Config{
		"no broker is named":                        {},
		"missing port":                              {Brokers: []string{"127.0.0.1"}},
		"SASL plain without":                        {Brokers: []string{"127.0.0.1:1"}, User: user, SASL: "plain"},
		`SASL is unknown`:                           {Brokers: []string{"127.0.0.1:1"}, User: user, SASL: "gssapi"},
		`want one of gzip, lz4, none, snappy, zstd`: {Brokers: []string{"127.0.0.1:1"}, Compression: "brotli"},
		"Timeout is -1s":                            {Brokers: []string{"127.0.0.1:1"}, Timeout: -time.Second},
	} {
		if _, err := kafka.New(cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("New: error %v, want one with %q and without the password", err, want)
		}
	}
}

// TestCompression: a consumer sees each batch with the codec that was asked for, and gzip by default.
func TestCompression(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]uint8{"": 1, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4} { // as in the protocol of Kafka
		server := kfake.Start(t, kfake.Options{})
		event := eventstest.Event(0, 1)
		event.Data = json.RawMessage(`{"title":"` + strings.Repeat("a", 4000) + `"}`) // small batches are not compressed
		for i, err := range open(t, kafka.Config{Brokers: []string{server.Addr()}, Create: true, Compression: name}).Send(t.Context(), []events.Event{event}) {
			if err != nil {
				t.Fatalf("%q: event %d: %v", name, i, err)
			}
		}
		consumer, err := kgo.NewClient(kgo.SeedBrokers(server.Addr()), kgo.ConsumeTopics("crawler"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		records := consumer.PollFetches(ctx).Records()
		cancel()
		consumer.Close()
		if len(records) != 1 || records[0].Attrs.CompressionType() != want {
			t.Errorf("%q: %d records, want one with the codec %d: %+v", name, len(records), want, records)
		}
	}
}
