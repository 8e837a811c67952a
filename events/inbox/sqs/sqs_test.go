package sqs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	client "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/events/inbox/internal/adaptertest"
	"github.com/bloomfrontier/crawler/events/inbox/sqs"
	"github.com/bloomfrontier/crawler/internal/testkit/npm"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// hidden is much shorter than the time that a handler can take, so Run must hide the message again.
const hidden = 3 * time.Second

func TestMain(m *testing.M) { adaptertest.Main(m, adaptertest.Adapter{Serve: serve}) }

// TestAdapter runs the tests of every adapter, and others, with a local emulator of SQS.
func TestAdapter(t *testing.T) {
	postgres := servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"max_connections": "300"}})
	server := servers.SQS(t, npm.Install(t, "../../sqs/testdata/fauxqs"))
	open := func(t *testing.T) adaptertest.Broker { return open(t, server.Addr()) }
	t.Run("Suite", func(t *testing.T) {
		t.Parallel()
		adaptertest.Run(t, postgres.DSN(), adaptertest.Adapter{Serve: serve, Open: open, Limits: true, LimitsKills: true})
	})
	for name, test := range map[string]func(*testing.T, *queue, *inbox.Inbox){
		"Hides": testHides, "Unreadable": testUnreadable, "InOrder": testInOrder, "RefusesRedrive": testRefusesRedrive,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t).(*queue), adaptertest.Open(t, postgres.DSN()))
		})
	}
}

func clientOf(queueURL string) *client.Client {
	base, _, _ := strings.Cut(queueURL, "/000000000000/")
	return client.New(client.Options{Region: "us-east-1", BaseEndpoint: &base, Credentials: aws.CredentialsProviderFunc(
		func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		})})
}

func serve(ctx context.Context, queueURL string, box *inbox.Inbox, handle inbox.Handler, attempts int) error {
	workers := 4
	if attempts < 10 { // the emulator also delivers to workers of a killed process, which counts as an attempt
		workers = 1
	}
	return sqs.Run(ctx, sqs.Config{Inbox: box, Client: clientOf(queueURL), QueueURL: queueURL, Handle: handle, Attempts: attempts, Workers: workers,
		Backoff: 10 * time.Millisecond, Timeout: adaptertest.Timeout, Hidden: hidden})
}

// queue is a FIFO queue.
type queue struct {
	url    string
	client *client.Client
	sent   atomic.Int32
}

var queues atomic.Int32

func open(t *testing.T, addr string) *queue {
	t.Helper()
	q := &queue{url: fmt.Sprintf("http://%s/000000000000/q%d.fifo", addr, queues.Add(1))}
	q.client = clientOf(q.url)
	_, err := q.client.CreateQueue(t.Context(), &client.CreateQueueInput{QueueName: aws.String(q.url[strings.LastIndexByte(q.url, '/')+1:]),
		Attributes: map[string]string{"FifoQueue": "true"}})
	must(t, err)
	return q
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (q *queue) Address() string { return q.url }

// Send sends the document once for each copy, to one group, or each to a group of its own.
func (q *queue) Send(t *testing.T, document []byte, copies int, parallel bool) {
	t.Helper()
	for range copies {
		n, group := q.sent.Add(1), "one"
		if parallel {
			group = fmt.Sprint(n)
		}
		_, err := q.client.SendMessage(t.Context(), &client.SendMessageInput{QueueUrl: &q.url, MessageBody: aws.String(string(document)),
			MessageGroupId: &group, MessageDeduplicationId: aws.String(fmt.Sprint(n))})
		must(t, err)
	}
}

func (q *queue) Settled(t *testing.T) bool {
	t.Helper()
	got, err := q.client.GetQueueAttributes(t.Context(), &client.GetQueueAttributesInput{QueueUrl: &q.url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	must(t, err)
	return got.Attributes["ApproximateNumberOfMessages"] == "0" && got.Attributes["ApproximateNumberOfMessagesNotVisible"] == "0"
}

// settle calls sqs.Run, and stops it when all messages are settled.
func (q *queue) settle(t *testing.T, cfg sqs.Config) {
	t.Helper()
	cfg.Client, cfg.QueueURL, cfg.Hidden = q.client, q.url, hidden
	ctx, stop := context.WithCancel(t.Context())
	var served sync.WaitGroup
	defer served.Wait()
	defer stop()
	served.Go(func() {
		if err := sqs.Run(ctx, cfg); err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(time.Minute); !q.Settled(t); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("some messages are not settled after a minute")
		}
	}
}

// testHides: a message is delivered only once, even if its handler takes longer than Hidden.
func testHides(t *testing.T, q *queue, box *inbox.Inbox) {
	q.Send(t, []byte("no CloudEvent"), 1, false)
	var deliveries atomic.Int32
	q.settle(t, sqs.Config{
		Inbox: box,
		Event: func(msg types.Message) (inbox.Event, error) {
			deliveries.Add(1)
			return inbox.Event{ID: "slow", Type: "x", Data: []byte(*msg.Body)}, nil
		},
		Handle: func(ctx context.Context, _ pgx.Tx, _ inbox.Event) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(2 * hidden):
				return nil
			}
		},
	})
	if n := deliveries.Load(); n != 1 {
		t.Errorf("the message was delivered %d times, want once", n)
	}
}

// testUnreadable: a message that is no event becomes a dead letter with the id of the message, and is deleted.
func testUnreadable(t *testing.T, q *queue, box *inbox.Inbox) {
	q.Send(t, []byte("no CloudEvent"), 1, false)
	q.settle(t, sqs.Config{Inbox: box})
	dead, err := box.Dead(t.Context(), 10)
	must(t, err)
	if len(dead) != 1 || dead[0].Event.ID == "" || string(dead[0].Event.Data) != "no CloudEvent" {
		t.Errorf("dead letters %+v, want one with an id and the data of the message", dead)
	}
}

// testInOrder: the events of a group are handled in order, also if one of them fails at first.
func testInOrder(t *testing.T, q *queue, box *inbox.Inbox) {
	for n := range 6 {
		q.Send(t, fmt.Appendf(nil, `{"specversion":"1.0","source":"urn:test","id":"%d","type":"x","data":{}}`, n), 1, false)
	}
	var mu sync.Mutex
	var got []string
	failed := false
	q.settle(t, sqs.Config{Inbox: box, Backoff: time.Millisecond, Handle: func(_ context.Context, _ pgx.Tx, e inbox.Event) error {
		mu.Lock()
		defer mu.Unlock()
		if e.ID == "urn:test 2" && !failed {
			failed = true
			return errors.New("the handler fails")
		}
		got = append(got, strings.TrimPrefix(e.ID, "urn:test "))
		return nil
	}})
	if text := strings.Join(got, " "); text != "0 1 2 3 4 5" {
		t.Errorf("handled %s, want 0 to 5 in order", text)
	}
}

// testRefusesRedrive: a queue that would take events away before their last attempt is refused.
func testRefusesRedrive(t *testing.T, q *queue, box *inbox.Inbox) {
	name := q.url[strings.LastIndexByte(q.url, '/')+1:]
	for _, count := range []string{`10`, `"10"`} {
		_, err := q.client.SetQueueAttributes(t.Context(), &client.SetQueueAttributesInput{QueueUrl: &q.url, Attributes: map[string]string{
			"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:` + name + `","maxReceiveCount":` + count + `}`}})
		must(t, err)
		if err := sqs.Run(t.Context(), sqs.Config{Inbox: box, Client: q.client, QueueURL: q.url}); err == nil || !strings.Contains(err.Error(), "above 10 attempts") {
			t.Errorf("Run with maxReceiveCount %s: %v, want an error", count, err)
		}
	}
}

// TestFaults: the error of Run names the faults of its Config.
func TestFaults(t *testing.T) {
	err := sqs.Run(t.Context(), sqs.Config{Hidden: time.Second, Workers: -1})
	for _, want := range []string{"Config.Inbox is nil", "Config.Client", "Config.Hidden is 1s", "Config.Workers is negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run: %v, want an error with %q", err, want)
		}
	}
}
