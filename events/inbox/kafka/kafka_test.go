package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/events/inbox/internal/adaptertest"
	"github.com/bloomfrontier/crawler/events/inbox/kafka"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

func TestMain(m *testing.M) { adaptertest.Main(m, adaptertest.Adapter{Serve: serve}) }

// cluster starts a broker in this process and returns its address. The broker is kfake,
// which implements the protocol of Kafka.
func cluster(t *testing.T) string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(10),
		kfake.GroupMinSessionTimeout(100*time.Millisecond))
	must(t, err)
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}

func TestAdapter(t *testing.T) {
	postgres := servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"max_connections": "300"}})
	addr := cluster(t)
	var topics atomic.Int32
	open := func(t *testing.T) adaptertest.Broker { return open(t, addr, fmt.Sprint("t", topics.Add(1))) }
	t.Run("Suite", func(t *testing.T) {
		t.Parallel()
		adaptertest.Run(t, postgres.DSN(), adaptertest.Adapter{Serve: serve, Open: open, Limits: true})
	})
	for name, test := range map[string]func(*testing.T, *broker, *inbox.Inbox){
		"Rebalance": testRebalance, "KeepsPartitions": testKeepsPartitions,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t).(*broker), adaptertest.Open(t, postgres.DSN()))
		})
	}
}

// testKeepsPartitions: a new member of the group gets no partition of another member while
// the other member's handlers run.
func testKeepsPartitions(t *testing.T, b *broker, box *inbox.Inbox) {
	b.Send(t, []byte(`{"specversion":"1.0","source":"urn:test","id":"k","type":"x"}`), 1, false)
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	entered, release, revoked := make(chan struct{}), make(chan struct{}), make(chan struct{}, 10)
	enter, leave := sync.OnceFunc(func() { close(entered) }), sync.OnceFunc(func() { close(release) })
	defer leave()
	handle := func(context.Context, pgx.Tx, inbox.Event) error { enter(); <-release; return nil }
	for _, start := range []<-chan struct{}{nil, entered} {
		if start != nil {
			<-start
		}
		serving.Go(func() {
			err := serveWith(ctx, b.Address(), box, handle, 10,
				kgo.OnPartitionsRevoked(func(context.Context, *kgo.Client, map[string][]int32) { revoked <- struct{}{} }))
			if err != nil {
				t.Error(err)
			}
		})
	}
	b.waitFor(t, "rebalance", func() bool { return b.groupState(t) != "Stable" })
	select {
	case <-revoked:
		t.Error("a partition was revoked from a member while its handler was running")
	case <-time.After(time.Second): // five heartbeats; a member learns of a rebalance at its next heartbeat
	}
	leave()
	b.waitFor(t, "offset", func() bool { return b.Settled(t) })
}

// testRebalance: members join and leave the group while records are handled, so that
// partitions move between them. Each event has one effect.
func testRebalance(t *testing.T, b *broker, box *inbox.Inbox) {
	const events, members = 200, 6
	for i := range events {
		b.Send(t, fmt.Appendf(nil, `{"specversion":"1.0","source":"urn:test","id":"%d","type":"x"}`, i/10), 1, false)
		b.Send(t, fmt.Appendf(nil, `{"specversion":"1.0","source":"urn:test","id":"%d","type":"x"}`, i/10), 1, true)
	}
	var mu sync.Mutex
	effects := map[string]int{}
	handle := func(_ context.Context, _ pgx.Tx, e inbox.Event) error {
		mu.Lock()
		defer mu.Unlock()
		effects[e.ID]++
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	for range members {
		serving.Go(func() {
			for lifetime := 300 * time.Millisecond; ctx.Err() == nil; lifetime *= 2 {
				ctx, cancel := context.WithTimeout(ctx, lifetime)
				if err := serve(ctx, b.Address(), box, handle, 10); err != nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	b.waitFor(t, "offsets", func() bool { return b.Settled(t) })
	stop()
	serving.Wait()
	for id, n := range effects {
		if n != 1 {
			t.Errorf("event %q has %d effects, want 1", id, n)
		}
	}
	if len(effects) != events/10 {
		t.Errorf("%d events had effects, want %d", len(effects), events/10)
	}
}

func options(addr, topic string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(addr), kgo.ConsumerGroup("g-" + topic), kgo.ConsumeTopics(topic),
		kgo.SessionTimeout(2 * time.Second), kgo.HeartbeatInterval(200 * time.Millisecond), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(-1), kgo.FetchMaxWait(100 * time.Millisecond),
	}
}

// serve handles the records of a topic. address contains the broker's address and the
// topic.
func serve(ctx context.Context, address string, box *inbox.Inbox, handle inbox.Handler, attempts int) error {
	return serveWith(ctx, address, box, handle, attempts)
}

func serveWith(ctx context.Context, address string, box *inbox.Inbox, handle inbox.Handler, attempts int, more ...kgo.Opt) error {
	var addr, topic string
	if _, err := fmt.Sscan(address, &addr, &topic); err != nil {
		return err
	}
	client, err := kgo.NewClient(slices.Concat(options(addr, topic), kafka.Options(), more)...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	return kafka.Run(ctx, client, kafka.Config{Inbox: box, Handle: handle, Attempts: attempts, Workers: 10,
		Backoff: 10 * time.Millisecond, Timeout: adaptertest.Timeout})
}

type broker struct {
	addr, topic string
	client      *kgo.Client
	sent        [10]int64 // records by partition
}

func open(t *testing.T, addr, topic string) *broker {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, err)
	t.Cleanup(client.Close)
	return &broker{addr: addr, topic: topic, client: client}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *broker) Address() string { return b.addr + " " + b.topic }

// Send produces all copies into one partition or, if parallel is set, each copy into a
// partition of its own.
func (b *broker) Send(t *testing.T, document []byte, copies int, parallel bool) {
	t.Helper()
	for i := range copies {
		record := &kgo.Record{Topic: b.topic, Value: document}
		if parallel {
			record.Partition = int32(i)
		}
		must(t, b.client.ProduceSync(t.Context(), record).FirstErr())
		b.sent[record.Partition]++
	}
}

// waitFor waits until condition returns true, but at most two minutes. The argument what
// describes the condition.
func (b *broker) waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after two minutes there is no %s", what)
		}
	}
}

// groupState returns the state of the consumer group, such as "Stable".
func (b *broker) groupState(t *testing.T) string {
	t.Helper()
	request := kmsg.NewPtrDescribeGroupsRequest()
	request.Groups = []string{"g-" + b.topic}
	response, err := request.RequestWith(t.Context(), b.client)
	must(t, err)
	return response.Groups[0].State
}

// Settled reports whether the offsets of all records are committed.
func (b *broker) Settled(t *testing.T) bool {
	t.Helper()
	request := kmsg.NewPtrOffsetFetchRequest()
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = "g-" + b.topic
	request.Groups = append(request.Groups, group)
	request.Group = group.Group
	response, err := request.RequestWith(t.Context(), b.client)
	must(t, err)
	var committed [10]int64
	for _, group := range response.Groups {
		for _, topic := range group.Topics {
			for _, partition := range topic.Partitions {
				committed[partition.Partition] = max(0, partition.Offset)
			}
		}
	}
	return committed == b.sent
}
