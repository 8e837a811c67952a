package nats_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/events/inbox/internal/adaptertest"
	"github.com/bloomfrontier/crawler/events/inbox/nats"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// ackWait is the time after which the server delivers an unacknowledged message again. It is
// much shorter than the time that a handler can take, so Run must report to the server that
// the handler is still running.
const ackWait = 2 * time.Second

func TestMain(m *testing.M) { adaptertest.Main(m, adaptertest.Adapter{Serve: serve}) }

func TestAdapter(t *testing.T) {
	postgres := servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"max_connections": "300"}})
	server := servers.NATS(t, servers.NATSOptions{})
	var streams atomic.Int32
	open := func(t *testing.T) adaptertest.Broker { return open(t, server.URL(), fmt.Sprint("s", streams.Add(1))) }
	t.Run("Suite", func(t *testing.T) {
		t.Parallel()
		adaptertest.Run(t, postgres.DSN(), adaptertest.Adapter{Serve: serve, Open: open, Limits: true, LimitsKills: true})
	})
	for name, test := range map[string]func(*testing.T, *broker, *inbox.Inbox){
		"Extends": testExtends, "Unreadable": testUnreadable, "RefusesConsumer": testRefusesConsumer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t).(*broker), adaptertest.Open(t, postgres.DSN()))
		})
	}
}

// serve handles the messages of a stream. address contains the server's URL and the stream.
func serve(ctx context.Context, address string, box *inbox.Inbox, handle inbox.Handler, attempts int) error {
	var url, stream string
	if _, err := fmt.Sscan(address, &url, &stream); err != nil {
		return err
	}
	consumer, end, err := connect(ctx, url, stream)
	if err != nil {
		return err
	}
	defer end()
	return nats.Run(ctx, consumer, nats.Config{Inbox: box, Handle: handle, Attempts: attempts,
		Backoff: 10 * time.Millisecond, Timeout: adaptertest.Timeout})
}

func connect(ctx context.Context, url, stream string) (jetstream.Consumer, func(), error) {
	client, err := natsio.Connect(url, natsio.MaxReconnects(-1), natsio.ReconnectWait(10*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(client)
	if err != nil {
		return nil, nil, err
	}
	if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{stream}}); err != nil {
		return nil, nil, err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1,
	})
	return consumer, client.Close, err
}

type broker struct {
	address  string
	js       jetstream.JetStream
	stream   string
	consumer jetstream.Consumer
}

func open(t *testing.T, url, stream string) *broker {
	t.Helper()
	consumer, end, err := connect(t.Context(), url, stream)
	must(t, err)
	t.Cleanup(end)
	client, err := natsio.Connect(url)
	must(t, err)
	t.Cleanup(client.Close)
	js, err := jetstream.New(client)
	must(t, err)
	return &broker{url + " " + stream, js, stream, consumer}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *broker) Address() string { return b.address }

// Send publishes the document once for each copy. The consumer determines how many messages
// are under way at a time.
func (b *broker) Send(t *testing.T, document []byte, copies int, _ bool) {
	t.Helper()
	for range copies {
		_, err := b.js.Publish(t.Context(), b.stream, document)
		must(t, err)
	}
}

func (b *broker) Settled(t *testing.T) bool {
	t.Helper()
	info, err := b.consumer.Info(t.Context())
	must(t, err)
	return info.NumPending == 0 && info.NumAckPending == 0
}

// settle calls nats.Run, and stops it when all messages are settled.
func (b *broker) settle(t *testing.T, cfg nats.Config) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var served sync.WaitGroup
	defer served.Wait()
	defer stop()
	served.Go(func() {
		if err := nats.Run(ctx, b.consumer, cfg); err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(time.Minute); !b.Settled(t); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("some messages are not settled after a minute")
		}
	}
}

// idle is a consumer without messages.
type idle struct{ jetstream.Consumer }

func (idle) CachedInfo() *jetstream.ConsumerInfo {
	return &jetstream.ConsumerInfo{Config: jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute}}
}

func (idle) Next(...jetstream.FetchOpt) (jetstream.Msg, error) { return nil, natsio.ErrTimeout }

// TestEndWithCause: Run returns nil when ctx ends, even if ctx was cancelled with a cause
// (context.WithCancelCause).
func TestEndWithCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("interrupt signal received")) })
	if err := nats.Run(ctx, idle{}, nats.Config{Inbox: new(inbox.Inbox)}); err != nil {
		t.Errorf("Run after the end of ctx: error %v, want none", err)
	}
}

// testExtends: a message is delivered only once, even if its handler takes longer than
// ackWait.
func testExtends(t *testing.T, b *broker, box *inbox.Inbox) {
	b.Send(t, []byte("no CloudEvent"), 1, false)
	var deliveries atomic.Int32
	b.settle(t, nats.Config{
		Inbox: box,
		Event: func(msg jetstream.Msg) (inbox.Event, error) {
			deliveries.Add(1)
			return inbox.Event{ID: "slow", Type: "x", Data: msg.Data()}, nil
		},
		Handle: func(ctx context.Context, _ pgx.Tx, _ inbox.Event) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(2 * ackWait):
				return nil
			}
		},
	})
	if n := deliveries.Load(); n != 1 {
		t.Errorf("the message was delivered %d times, want once", n)
	}
}

// testUnreadable: a message that is not an event becomes a dead letter whose id is the
// place of the message in the stream. The message is terminated, which the server
// announces in an advisory.
func testUnreadable(t *testing.T, b *broker, box *inbox.Inbox) {
	terminated, err := b.js.Conn().SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED." + b.stream + ".>")
	must(t, err)
	must(t, b.js.Conn().Flush())
	b.Send(t, []byte("no CloudEvent"), 1, false)
	b.settle(t, nats.Config{Inbox: box})
	if _, err := terminated.NextMsg(10 * time.Second); err != nil {
		t.Errorf("the message is not terminated: %v", err)
	}
	dead, err := box.Dead(t.Context(), 10)
	must(t, err)
	if len(dead) != 1 || dead[0].Event.ID != b.stream+"/1" || string(dead[0].Event.Data) != "no CloudEvent" {
		t.Errorf("dead letters %+v, want one with the id %s/1 and the data of the message", dead, b.stream)
	}
}

// testRefusesConsumer: a consumer that could lose events is refused.
func testRefusesConsumer(t *testing.T, b *broker, box *inbox.Inbox) {
	for _, config := range []jetstream.ConsumerConfig{
		{Durable: "a", AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 10},
		{Durable: "b", AckPolicy: jetstream.AckAllPolicy},
	} {
		consumer, err := b.js.CreateConsumer(t.Context(), b.stream, config)
		must(t, err)
		if err := nats.Run(t.Context(), consumer, nats.Config{Inbox: box}); err == nil {
			t.Errorf("Run with the consumer %+v: no error", config)
		}
	}
}
