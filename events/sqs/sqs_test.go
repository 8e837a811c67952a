package sqs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	client "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/events/sqs"
	"github.com/bloomfrontier/crawler/internal/testkit/npm"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

var login = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "geheim"}, nil
})

var queues atomic.Int32

// queue is a queue of a server, and a client that reads it.
type queue struct {
	*testing.T
	url    string
	client *client.Client
}

// newQueue returns a queue that does not exist yet.
func newQueue(t *testing.T, addr string) *queue {
	base := "http://" + addr
	return &queue{t, fmt.Sprintf("%s/000000000000/q%d.fifo", base, queues.Add(1)),
		client.New(client.Options{Region: "us-east-1", BaseEndpoint: &base, Credentials: login})}
}

func (q *queue) open(change ...func(*sqs.Config)) *sqs.Sink {
	q.Helper()
	cfg := sqs.Config{QueueURL: q.url, Region: "us-east-1", Credentials: login, Create: true}
	for _, f := range change {
		f(&cfg)
	}
	s, err := sqs.New(cfg)
	if err != nil {
		q.Fatal(err)
	}
	return s
}

// received receives all messages, and deletes them. The messages of a group come in order.
func (q *queue) received() (all []types.Message) {
	for {
		got, err := q.client.ReceiveMessage(context.WithoutCancel(q.Context()), &client.ReceiveMessageInput{QueueUrl: &q.url, MaxNumberOfMessages: 10,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}})
		if err != nil {
			q.Fatal(err)
		}
		if len(got.Messages) == 0 && q.empty() { // an answer can be empty although there are messages
			return all
		}
		for _, m := range got.Messages {
			if _, err := q.client.DeleteMessage(q.Context(), &client.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				q.Fatal(err)
			}
		}
		all = append(all, got.Messages...)
	}
}

func (q *queue) empty() bool {
	q.Helper()
	state, err := q.client.GetQueueAttributes(context.WithoutCancel(q.Context()), &client.GetQueueAttributesInput{QueueUrl: &q.url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		q.Fatal(err)
	}
	return state.Attributes["ApproximateNumberOfMessages"] == "0" && state.Attributes["ApproximateNumberOfMessagesNotVisible"] == "0"
}

func (q *queue) events() (all []events.Event) {
	for _, m := range q.received() {
		var e events.Event
		if err := e.UnmarshalJSON([]byte(*m.Body)); err != nil {
			q.Error(err)
		}
		if group := m.Attributes["MessageGroupId"]; group != e.Host {
			q.Errorf("the event of %s is in the group %s", e.Host, group)
		}
		all = append(all, e)
	}
	return all
}

// TestSink runs the tests of every sink, and others, with a local emulator of SQS.
func TestSink(t *testing.T) {
	server := servers.SQS(t, npm.Install(t, "testdata/fauxqs"))
	t.Run("Contract", func(t *testing.T) {
		eventstest.RunSink(t, func(t *testing.T) eventstest.SinkUnderTest {
			q := newQueue(t, server.Addr())
			return eventstest.SinkUnderTest{Sink: q.open(), Received: q.events}
		})
	})
	t.Run("Repeats", func(t *testing.T) {
		q := newQueue(t, server.Addr())
		batch := []events.Event{eventstest.Event(0, 1)}
		for range 3 { // a relay that was killed sends its last events again
			if err := q.open().Send(t.Context(), batch)[0]; err != nil {
				t.Error(err)
			}
		}
		long := eventstest.Event(1, 1)
		long.Host, long.ID = strings.Repeat("a", 200)+".test", "ü"
		if err := q.open().Send(t.Context(), []events.Event{long})[0]; err != nil {
			t.Error(err)
		}
		if got := q.received(); len(got) != 2 {
			t.Errorf("%d messages, want 2", len(got))
		}
	})
	t.Run("Large", func(t *testing.T) {
		q := newQueue(t, server.Addr())
		var batch []events.Event
		for n := range 12 {
			e := eventstest.Event(n, 12)
			e.Data = fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 100<<10))
			batch = append(batch, e)
		}
		batch[3].Data = fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 3<<20))
		for n, err := range q.open().Send(t.Context(), batch) {
			if _, refused := errors.AsType[*events.RefusedError](err); refused != (n == 3) || n != 3 && err != nil {
				t.Errorf("event %d: %v, want that only the large one is refused", n, err)
			}
		}
		if got := q.received(); len(got) != 11 {
			t.Errorf("%d messages, want 11", len(got))
		}
	})
	t.Run("Missing", func(t *testing.T) {
		q := newQueue(t, server.Addr())
		s := q.open(func(c *sqs.Config) { c.Create = false })
		err := s.Send(t.Context(), []events.Event{eventstest.Event(0, 1)})[0]
		if _, away := errors.AsType[*events.AwayError](err); !away || !strings.Contains(err.Error(), "there is no queue") {
			t.Errorf("Send to a missing queue: %v, want an AwayError that says so", err)
		}
	})
}

// TestAway: an answer that is an error, no answer and a server that is not there are AwayErrors without the password.
func TestAway(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices the end of the connection
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	denying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"__type":"com.amazonaws.sqs#AccessDeniedException","message":"no"}`)
	}))
	t.Cleanup(denying.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, server := range []*httptest.Server{silent, denying, gone} {
		for _, create := range []bool{false, true} {
			s := newQueue(t, server.Listener.Addr().String()).open(func(c *sqs.Config) { c.Create, c.Timeout = create, 200*time.Millisecond })
			errs := s.Send(t.Context(), []events.Event{eventstest.Event(0, 2), eventstest.Event(1, 2)})
			for _, err := range errs {
				if _, away := errors.AsType[*events.AwayError](err); !away || strings.Contains(err.Error(), "geheim") {
					t.Errorf("%v, want an AwayError without secrets", err)
				}
			}
		}
	}
}

func TestNew(t *testing.T) {
	for _, c := range []struct{ url, region, want string }{
		{"https://sqs.eu-west-1.amazonaws.com/123456789012/pages.fifo", "", ""},
		{"http://127.0.0.1:4566/0/pages.fifo", "x", ""},
		{"http://127.0.0.1:4566/0/pages.fifo", "", "the region of 127.0.0.1:4566 is not known"},
		{"https://sqs.eu-west-1.amazonaws.com/123456789012/pages", "", `queue "pages" is no FIFO queue`},
		{"sqs.eu-west-1.amazonaws.com", "", "want the URL of a queue"},
	} {
		_, err := sqs.New(sqs.Config{QueueURL: c.url, Region: c.region, Credentials: login})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("New of %s: %v, want %q", c.url, err, c.want)
		}
	}
	s, err := sqs.New(sqs.Config{QueueURL: "https://sqs.eu-west-1.amazonaws.com/1/p.fifo", Credentials: login})
	if err != nil || s.Warnings(5*time.Minute) != nil || !slices.ContainsFunc(s.Warnings(5*time.Minute+1), func(w string) bool { return strings.Contains(w, "5m0s only") }) {
		t.Errorf("warnings %q, %q, error %v; want one after 5 minutes", s.Warnings(5*time.Minute), s.Warnings(time.Hour), err)
	}
}
