package sinks_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/events/sinks"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

func TestOpen(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	keys, other := filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "other")
	for path, text := range map[string]string{
		keys:  "[x]\naws_access_key_id = b\n[default]\naws_access_key_id = a\naws_secret_access_key=s3cret\n",
		other: "[x]\naws_access_key_id = b\naws_secret_access_key=s3cret\n[default]\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		to   string
		cfg  sinks.Config
		want string // part of the error; empty means no error
	}{
		{to: "https://hooks.example.org/x?token=s3cret", cfg: sinks.Config{Secrets: [][]byte{[]byte("x")}, Batch: true, Timeout: time.Second}},
		{to: "http://127.0.0.1:1/x"},
		{to: "http://hooks.example.org/s3cret", want: "readable by others"},
		{to: "nats://127.0.0.1:1,127.0.0.1:2/stream", cfg: sinks.Config{Create: true, Window: time.Hour}},
		{to: "nats://[::1]/"},
		{to: "nats://us%20er:s3cret@127.0.0.1:1"},
		{to: "nats://us er:s3cret%@127.0.0.1:1", want: "user and password of the URL are malformed"},
		{to: "nats:///stream", want: "names no host"},
		{to: "nats://127.0.0.1:1/s3cret.x", want: "stream's name"},
		{to: "nats://127.0.0.1:1/x?tls=1", want: "has no options"},
		{to: "nats://127.0.0.1:1/x", cfg: sinks.Config{CredentialsFile: none}, want: "credentials"},
		{to: "kafka://127.0.0.1:1,127.0.0.1:2/topic", cfg: sinks.Config{Create: true, TransactionalID: "x"}},
		{to: "kafka+tls://u:s3cret@127.0.0.1/topic?sasl=plain"},
		{to: "kafka://u:s3cret@127.0.0.1/topic?sasl=plain", want: "without TLS"},
		{to: "kafka://127.0.0.1/topic?acks=0", want: "no option but sasl"},
		{to: "sqs://id:s3cret@sqs.eu-west-1.amazonaws.com/123456789012/pages.fifo", cfg: sinks.Config{Create: true, Timeout: time.Second}},
		{to: "sqs+http://id:s3cret@127.0.0.1:1/0/pages.fifo?region=x"},
		{to: "sqs+http://id:s3cret@10.0.0.1:1/0/pages.fifo?region=x", want: "readable by others"},
		{to: "sqs://id:s3cret@h/0/pages", want: "no FIFO queue"},
		{to: "sqs://id:s3cret@h/0/pages.fifo", want: "the region of h is not known"},
		{to: "sqs://sqs.eu-west-1.amazonaws.com/1/pages.fifo", want: "needs KEYID:SECRET@"},
		{to: "sqs://sqs.eu-west-1.amazonaws.com/1/pages.fifo", cfg: sinks.Config{CredentialsFile: none}, want: "credentials"},
		{to: "sqs://sqs.eu-west-1.amazonaws.com/1/pages.fifo", cfg: sinks.Config{CredentialsFile: keys}},
		{to: "sqs://sqs.eu-west-1.amazonaws.com/1/pages.fifo", cfg: sinks.Config{CredentialsFile: other}, want: "has no aws_access_key_id"},
		{to: "-", want: "no standard output"},
		{to: "-", cfg: sinks.Config{Secrets: [][]byte{[]byte("x")}}, want: "standard output takes no secret for signatures"},
		{to: "nats://127.0.0.1:1", cfg: sinks.Config{TransactionalID: "x"}, want: "a sink of nats:// takes no transactional id"},
		{to: "kafka://127.0.0.1:1", cfg: sinks.Config{Batch: true}, want: "takes no batches"},
		{to: "nats://127.0.0.1:1", cfg: sinks.Config{CAFile: none}, want: "without TLS"},
		{to: "tls://127.0.0.1:1", cfg: sinks.Config{CAFile: none}, want: "want a file with certificates"},
		{to: "amqp://u:s3cret@h/", want: "want -, https://HOST/PATH"},
		{to: "s3cret", want: "want -, https://HOST/PATH"},
	} {
		sink, err := sinks.Open(t.Context(), tc.to, tc.cfg)
		if tc.want == "" && err == nil {
			err = sink.Close()
		}
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("Open(%s): error %v, want none", tc.to, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("Open(%s): error %v, want one with %q", tc.to, err, tc.want)
		case err != nil && strings.Contains(err.Error(), "s3cret@"):
			t.Errorf("%s: the error has the password: %v", tc.to, err)
		}
	}
}

func TestStandardOutput(t *testing.T) {
	var out bytes.Buffer
	sink, err := sinks.Open(t.Context(), "-", sinks.Config{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := sink.(events.TransactionalSink); !ok {
		t.Error("the sink is not transactional, so lines would not come in order")
	}
	if err := sink.Send(t.Context(), []events.Event{eventstest.Event(0, 1)})[0]; err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("Send wrote %q, error %v; want one line", out.String(), err)
	}
}

// TestTLS: the server's certificate is verified with the authorities in Config.CAFile.
func TestTLS(t *testing.T) {
	server := servers.NATS(t, servers.NATSOptions{TLS: true})
	batch := []events.Event{eventstest.Event(0, 1)}
	sink, err := sinks.Open(t.Context(), server.URL()+"/s", sinks.Config{CAFile: server.CACert(), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	if err := sink.Send(t.Context(), batch)[0]; err != nil {
		t.Error(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sinks.Open(t.Context(), server.URL(), sinks.Config{CAFile: empty}); err == nil || !strings.Contains(err.Error(), "it has none") {
		t.Error(err)
	}
}
