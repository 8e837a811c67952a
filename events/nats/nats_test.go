package nats_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/events/nats"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

var seedFlag = flag.Uint64("seed", 0, "run random tests with this seed")

func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("run it again with -seed %d", seed)
	return seed
}

func open(t *testing.T, cfg nats.Config) *nats.Sink {
	t.Helper()
	sink, err := nats.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

// streamClient returns a client with which a test reads the stream.
func streamClient(t *testing.T, server *servers.NATSServer, opt ...client.Option) jetstream.JetStream {
	t.Helper()
	conn, err := client.Connect(server.URL(), append(opt, client.MaxReconnects(-1), client.ReconnectWait(50*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	stream, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// stored returns the events of a stream, in the order of the stream.
func stored(t *testing.T, js jetstream.JetStream, name string) []events.Event {
	t.Helper()
	stream, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := make([]events.Event, info.State.Msgs)
	for i := range all {
		m, err := stream.GetMsg(t.Context(), info.State.FirstSeq+uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(m.Data, &all[i]); err != nil {
			t.Fatal(err)
		}
		if m.Subject != name+"."+all[i].Type || m.Header.Get("Nats-Msg-Id") != all[i].ID || m.Header.Get("Content-Type") != "application/cloudevents+json" {
			t.Errorf("message %d has subject %s and header %v, want those of event %s", i, m.Subject, m.Header, all[i].ID)
		}
	}
	return all
}

func TestContract(t *testing.T) {
	eventstest.RunSink(t, func(t *testing.T) eventstest.SinkUnderTest {
		server := servers.NATS(t, servers.NATSOptions{})
		return eventstest.SinkUnderTest{
			Sink:     open(t, nats.Config{Servers: []string{server.Addr()}, Create: true, Outstanding: 2}),
			Received: func() []events.Event { return stored(t, streamClient(t, server), "crawler") },
		}
	})
}

// TestKilledServer: although the server is killed repeatedly, every event arrives once, and
// the events of each host in order.
func TestKilledServer(t *testing.T) {
	random := rand.New(rand.NewPCG(newSeed(t), 0))
	server := servers.NATS(t, servers.NATSOptions{})
	const all, hosts, kills = 3000, 20, 4
	outbox := new(eventstest.Outbox)
	for n := range all {
		outbox.Append(eventstest.Event(n, hosts))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	sink := open(t, nats.Config{Servers: []string{server.Addr()}, Create: true, Timeout: 5 * time.Second})
	sent := make(chan int, all) // a value for each call of Send
	done := make(chan error, 1)
	go func() {
		done <- events.Run(ctx, events.Config{
			Name: "r", Outbox: outbox, Sink: counted{sink, sent}, Progress: new(eventstest.Progress),
		}, true)
		close(sent)
	}()
	for range kills {
		for range 1 + random.IntN(20) {
			<-sent
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	got := stored(t, streamClient(t, server), "crawler")
	eventstest.CheckOnce(t, got, 0, all, hosts)
}

// counted is a sink that reports each call of Send to a test.
type counted struct {
	events.Sink
	sent chan<- int
}

func (c counted) Send(ctx context.Context, batch []events.Event) []error {
	c.sent <- len(batch)
	return c.Sink.Send(ctx, batch)
}

// TestWindow: a stream that the sink created drops repeats within Config.Window, by default
// within an hour.
func TestWindow(t *testing.T) {
	server := servers.NATS(t, servers.NATSOptions{})
	js := streamClient(t, server)
	e := []events.Event{eventstest.Event(0, 1)}
	send := func(sink *nats.Sink) {
		t.Helper()
		if err := sink.Send(t.Context(), e)[0]; err != nil {
			t.Fatal(err)
		}
	}
	long := open(t, nats.Config{Servers: []string{server.Addr()}, Stream: "long", Create: true})
	send(long)
	send(long)
	if n := long.Duplicates(); n != 1 {
		t.Errorf("%d duplicates, want 1", n)
	}
	stream, err := js.Stream(t.Context(), "long")
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo().Config.Duplicates; got != time.Hour || len(stored(t, js, "long")) != 1 {
		t.Errorf("the window is %v and the stream has %d events, want window %v and 1 event", got, len(stored(t, js, "long")), time.Hour)
	}
	short := open(t, nats.Config{Servers: []string{server.Addr()}, Stream: "short", Create: true, Window: 100 * time.Millisecond})
	for ends := time.Now().Add(time.Minute); ; {
		send(short)
		if len(stored(t, js, "short")) == 2 {
			break // the window is over
		}
		if time.Now().After(ends) {
			t.Fatal("a repeat was still dropped a minute after a window of 100 ms")
		}
	}
}

// expect sends an event repeatedly. If want is empty, it stops when the sink accepts the
// event. Otherwise it stops when the sink returns an *AwayError whose text contains want.
func expect(t *testing.T, sink *nats.Sink, e []events.Event, want string) {
	t.Helper()
	for ends := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := sink.Send(t.Context(), e)[0]
		if _, away := errors.AsType[*events.AwayError](err); want != "" && !away {
			t.Fatalf("Send: error %v, want an AwayError with %q", err, want)
		}
		if want == "" && err == nil || want != "" && strings.Contains(err.Error(), want) {
			return
		}
		if time.Now().After(ends) {
			t.Fatalf("Send: error %v after 20 s, want %q", err, want)
		}
	}
}

// TestAway: the sink is unavailable while the server is not running or the stream is missing,
// and works after that.
func TestAway(t *testing.T) {
	server := servers.NATS(t, servers.NATSOptions{})
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	sink := open(t, nats.Config{Servers: []string{server.Addr()}, Timeout: 5 * time.Second})
	e := []events.Event{eventstest.Event(0, 1)}
	expect(t, sink, e, "no connection to a server")
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	expect(t, sink, e, "create stream crawler with the subjects crawler.>")
	made := open(t, nats.Config{Servers: []string{server.Addr()}, Create: true})
	if err := made.Send(t.Context(), e)[0]; err != nil {
		t.Fatal(err)
	}
	expect(t, sink, e, "")
	if got := stored(t, streamClient(t, server), "crawler"); len(got) != 1 {
		t.Errorf("the stream has %d events, want 1", len(got))
	}
	// After the stream was removed, the sink creates it again.
	if err := streamClient(t, server).DeleteStream(t.Context(), "crawler"); err != nil {
		t.Fatal(err)
	}
	for ends := time.Now().Add(time.Minute); ; {
		err := made.Send(t.Context(), e)[0]
		if err == nil {
			break
		}
		if time.Now().After(ends) {
			t.Fatal(err)
		}
	}
}

// TestRefused: events that are too large for the server or for the stream are refused with a
// *RefusedError. The other events of the same call arrive.
func TestRefused(t *testing.T) {
	server := servers.NATS(t, servers.NATSOptions{Config: "max_payload: 100KB"})
	js := streamClient(t, server)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "small", Subjects: []string{"small.>"}, MaxMsgSize: 10_000}); err != nil {
		t.Fatal(err)
	}
	sink := open(t, nats.Config{Servers: []string{server.Addr()}, Stream: "small", Create: true})
	batch := []events.Event{eventstest.Event(0, 3), eventstest.Event(1, 3), eventstest.Event(2, 3)}
	for i, size := range []int{20_000, 0, 200_000} {
		batch[i].Data = json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
	}
	errs := sink.Send(t.Context(), batch)
	for i, want := range []string{"the stream's limit (max_msg_size)", "", "limit of 102400 bytes (max_payload)"} {
		refusal, _ := errors.AsType[*events.RefusedError](errs[i])
		if want == "" && errs[i] != nil || want != "" && (refusal == nil || !strings.Contains(refusal.Reason, want)) {
			t.Errorf("event %d: error %v, want a RefusedError with %q, or none if that is empty", i, errs[i], want)
		}
	}
	if got := stored(t, js, "small"); len(got) != 1 || got[0].ID != batch[1].ID {
		t.Errorf("the stream has the events %v, want only %s", eventstest.IDs(got), batch[1].ID)
	}
}

func TestTLSAndPassword(t *testing.T) {
	server := servers.NATS(t, servers.NATSOptions{TLS: true, Config: `authorization { user: relay, password: "s3cret" }`})
	pem, err := os.ReadFile(server.CACert())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	cfg := nats.Config{
		Servers: []string{server.Addr()}, User: url.UserPassword("relay", "s3cret"), Create: true,
		TLS: &tls.Config{RootCAs: pool},
	}
	batch := []events.Event{eventstest.Event(0, 1)}
	if err := open(t, cfg).Send(t.Context(), batch)[0]; err != nil {
		t.Error(err)
	}
	cfg.User = url.UserPassword("relay", "wr0ng")
	if err := open(t, cfg).Send(t.Context(), batch)[0]; err == nil || strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("Send with a wrong password: error %v, want one that does not contain the password", err)
	}
	cfg.User, cfg.TLS = url.UserPassword("relay", "s3cret"), &tls.Config{RootCAs: x509.NewCertPool()}
	expect(t, open(t, cfg), batch, "certificate")
}

// TestCredentialsFile: the server identifies a user by a token that the user's account has
// signed. The credentials file has this token and the user's key.
func TestCredentialsFile(t *testing.T) {
	operator, operatorKey := key(t, nkeys.CreateOperator)
	account, accountKey := key(t, nkeys.CreateAccount)
	user, userKey := key(t, nkeys.CreateUser)
	system, _ := key(t, nkeys.CreateAccount)
	systemToken, err0 := jwt.NewAccountClaims(system).Encode(operatorKey)
	operates := jwt.NewOperatorClaims(operator)
	operates.SystemAccount = system
	limits := jwt.NewAccountClaims(account)
	limits.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1}
	accountToken, err1 := limits.Encode(operatorKey)
	operatorToken, err2 := operates.Encode(operatorKey)
	userToken, err3 := jwt.NewUserClaims(user).Encode(accountKey)
	seed, err4 := userKey.Seed()
	text, err5 := jwt.FormatUserConfig(userToken, seed)
	path := filepath.Join(t.TempDir(), "relay.creds")
	if err := errors.Join(err0, err1, err2, err3, err4, err5, os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	server := servers.NATS(t, servers.NATSOptions{
		Config: fmt.Sprintf("operator: %s\nresolver: MEMORY\nresolver_preload: { %s: %s, %s: %s }\n",
			operatorToken, system, systemToken, account, accountToken),
	})
	batch := []events.Event{eventstest.Event(0, 1)}
	sink := open(t, nats.Config{Servers: []string{server.Addr()}, Create: true, CredentialsFile: path})
	if err := sink.Send(t.Context(), batch)[0]; err != nil {
		t.Fatal(err)
	}
	if got := stored(t, streamClient(t, server, client.UserCredentials(path)), "crawler"); len(got) != 1 {
		t.Errorf("the stream has %d events, want 1", len(got))
	}
	if err := open(t, nats.Config{Servers: []string{server.Addr()}}).Send(t.Context(), batch)[0]; err == nil {
		t.Error("Send without credentials: no error")
	}
}

// key returns a new key pair and its public key.
func key(t *testing.T, create func() (nkeys.KeyPair, error)) (public string, pair nkeys.KeyPair) {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return public, pair
}

func TestNew(t *testing.T) {
	for want, cfg := range map[string]nats.Config{
		"no server is named": {},
		"missing port":       {Servers: []string{"127.0.0.1"}},
		`name is "a.b"`:      {Servers: []string{"127.0.0.1:1"}, Stream: "a.b"},
		"Window is -1s":      {Servers: []string{"127.0.0.1:1"}, Window: -time.Second},
		"credentials: stat":  {Servers: []string{"127.0.0.1:1"}, CredentialsFile: filepath.Join(t.TempDir(), "none")},
	} {
		if _, err := nats.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: error %v, want one with %q", err, want)
		}
	}
}

// TestWarnings: settings of a stream with which a delivered event can be lost, or be stored twice, are named.
func TestWarnings(t *testing.T) {
	server := servers.NATS(t, servers.NATSOptions{})
	js := streamClient(t, server)
	const async, copied, window = "persist_mode: async", "copies another stream", "has a duplicate window of 1m0s"
	for i, c := range []struct {
		config jetstream.StreamConfig
		behind time.Duration
		want   string // "" means none
	}{
		{jetstream.StreamConfig{Duplicates: time.Minute}, time.Minute, ""},
		{jetstream.StreamConfig{Duplicates: time.Minute}, time.Minute + 1, window},
		{jetstream.StreamConfig{Duplicates: time.Minute, Sources: []*jetstream.StreamSource{{Name: "other"}}}, 0, copied},
		{jetstream.StreamConfig{Duplicates: time.Minute, PersistMode: jetstream.AsyncPersistMode}, 0, async},
	} {
		c.config.Name = fmt.Sprintf("s%d", i)
		c.config.Subjects = []string{c.config.Name + ".>"}
		stream, err := js.CreateStream(t.Context(), c.config)
		if err != nil {
			t.Fatal(err)
		}
		if stream.CachedInfo().Config.PersistMode != c.config.PersistMode {
			t.Logf("%s needs nats-server 2.12", async)
			continue
		}
		sink := open(t, nats.Config{Servers: []string{server.Addr()}, Stream: c.config.Name})
		if got := sink.Warnings(time.Hour); got != nil {
			t.Errorf("before the first event: %q, want no warnings", got)
		}
		expect(t, sink, []events.Event{eventstest.Event(0, 1)}, "")
		got := sink.Warnings(c.behind)
		if len(got) > 1 || (len(got) == 0) != (c.want == "") || !strings.Contains(strings.Join(got, ""), c.want) {
			t.Errorf("stream %d: warnings %q, want %q", i, got, c.want)
		}
	}
}

// TestInterest: a stream that keeps only events in which a consumer is interested has no consumer. The sink is away until
// there is one, and then the stream has the events.
func TestInterest(t *testing.T) {
	server := servers.NATS(t, servers.NATSOptions{})
	js := streamClient(t, server)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "crawler", Subjects: []string{"crawler.>"}, Retention: jetstream.InterestPolicy})
	if err != nil {
		t.Fatal(err)
	}
	for _, create := range []bool{false, true} {
		e := []events.Event{eventstest.Event(0, 1)}
		e[0].ID += fmt.Sprint(create)
		sink := open(t, nats.Config{Servers: []string{server.Addr()}, Create: create})
		expect(t, sink, e, "it has no consumer")
		if _, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "reader", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
			t.Fatal(err)
		}
		expect(t, sink, e, "")
		if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 1 {
			t.Errorf("the stream has %d events, error %v; want 1", info.State.Msgs, err)
		}
		if err := errors.Join(stream.DeleteConsumer(t.Context(), "reader"), stream.Purge(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}
