package nats_test

import (
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/events/nats"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// BenchmarkRelay delivers events of 500 hosts to JetStream, and then publishes the same
// payloads without a relay, with the same number of messages outstanding. It reports both
// rates, and the rate with the relay divided by the rate without it.
func BenchmarkRelay(b *testing.B) {
	const hosts, outstanding = 500, 256
	server := servers.NATS(b, servers.NATSOptions{})
	outbox := new(eventstest.Outbox)
	messages := make([]*client.Msg, b.N)
	for n := range b.N {
		e := eventstest.Event(n, hosts)
		text, err := e.MarshalJSON()
		if err != nil {
			b.Fatal(err)
		}
		messages[n] = &client.Msg{Subject: "bare." + e.Type, Data: text, Header: client.Header{
			"Nats-Msg-Id": {e.ID}, "Nats-Expected-Stream": {"bare"}, "Content-Type": {"application/cloudevents+json"},
		}}
		outbox.Append(e)
	}
	sink, err := nats.New(nats.Config{Servers: []string{server.Addr()}, Create: true, Outstanding: outstanding})
	if err != nil {
		b.Fatal(err)
	}
	defer sink.Close()
	conn, err := client.Connect(server.URL())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(outstanding))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "bare", Subjects: []string{"bare.>"}, Duplicates: time.Hour}); err != nil {
		b.Fatal(err)
	}

	b.ResetTimer()
	begun := time.Now()
	err = events.Run(b.Context(), events.Config{
		Name: "r", Outbox: outbox, Sink: sink, Progress: new(eventstest.Progress), Outstanding: outstanding,
	}, true)
	if err != nil {
		b.Fatal(err)
	}
	relay := time.Since(begun)
	b.StopTimer()

	begun = time.Now()
	for _, m := range messages {
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	bare := time.Since(begun)
	b.ReportMetric(float64(b.N)/relay.Seconds(), "relay-events/s")
	b.ReportMetric(float64(b.N)/bare.Seconds(), "bare-events/s")
	b.ReportMetric(bare.Seconds()/relay.Seconds(), "relay/bare")
}
