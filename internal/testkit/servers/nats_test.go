package servers_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestKilledNATSKeepsItsStream checks that acknowledged messages survive SIGKILL and
// a restart on the same address.
func TestKilledNATSKeepsItsStream(t *testing.T) {
	t.Parallel()
	server := servers.NATS(t, servers.NATSOptions{})
	stream := openStream(t, server)
	for range 100 {
		_, err := stream.Publish(t.Context(), "pages", []byte("text"))
		must(t, err)
	}
	must(t, server.Kill())
	must(t, server.Restart())
	if got := messages(t, openStream(t, server)); got != 100 {
		t.Errorf("%d messages after a kill, want 100", got)
	}
}

// TestNATSOverTLS checks that clients can connect with TLS and not without.
func TestNATSOverTLS(t *testing.T) {
	t.Parallel()
	server := servers.NATS(t, servers.NATSOptions{TLS: true})
	if got := messages(t, openStream(t, server, nats.RootCAs(server.CACert()))); got != 0 {
		t.Errorf("a new stream has %d messages, want 0", got)
	}
	if client, err := nats.Connect("nats://" + server.Addr()); err == nil {
		client.Close()
		t.Error("Connect without the server's authority: no error")
	}
}

// TestNATSWithPassword checks that the server uses the additional configuration, and
// that it starts although ping has no password.
func TestNATSWithPassword(t *testing.T) {
	t.Parallel()
	server := servers.NATS(t, servers.NATSOptions{Config: `authorization { user: "a", password: "b" }`})
	openStream(t, server, nats.UserInfo("a", "b"))
}

// openStream makes the stream "pages" if it does not exist.
func openStream(t *testing.T, server *servers.NATSServer, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	client, err := nats.Connect(server.URL(), options...)
	must(t, err)
	t.Cleanup(client.Close)
	stream, err := jetstream.New(client)
	must(t, err)
	_, err = stream.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "pages", Subjects: []string{"pages"}})
	must(t, err)
	return stream
}

func messages(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), "pages")
	must(t, err)
	return stream.CachedInfo().State.Msgs
}
