package proofs

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	library "github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/files"
	"github.com/bloomfrontier/crawler/events/inbox"
	inboxnats "github.com/bloomfrontier/crawler/events/inbox/nats"
	"github.com/bloomfrontier/crawler/events/sinks"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// Environment variables of the programs that TestInboxKilled kills.
const (
	chainRole  = "PROOFS_CHAIN_ROLE" // "relay" or "consumer"
	chainName  = "PROOFS_CHAIN_NAME" // name of the relay
	chainDir   = "PROOFS_CHAIN_DIR"
	chainNATS  = "PROOFS_CHAIN_NATS"
	chainDSN   = "PROOFS_CHAIN_DSN"
	chainDeath = "PROOFS_CHAIN_DEATH" // number of the handler's call in which the consumer dies, before the commit
	chainWhere = "urn:crawler:proof"  // not a variable, but the source of the events
)

// TestInboxKilled sends records from a crawl's files through JetStream and an inbox
// into a table. Meanwhile it kills the relay, the broker, the consumer and the database
// at random. The consumer also dies between its handler's write and the commit. When a
// relay has sent everything, a relay with a new name sends everything again. The stream
// itself recognises repeated messages only for a second. At the end, the table must have
// each record once.
func TestInboxKilled(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(newSeed(t), 1))
	pages, kills := sized(40, 1000), sized(12, 1000)
	site := treeSite(pages)
	defer site.Close()
	dir := filepath.Join(t.TempDir(), "site.crawl")
	config := library.Config{Dir: dir, Seeds: []string{site.URL}, Settings: library.DefaultSettings()}
	config.Settings.Delay, config.Settings.AllowPrivate = 0, true
	if err := library.Run(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	postgres := servers.Postgres(t, servers.PostgresOptions{})
	broker := servers.NATS(t, servers.NATSOptions{})
	pool := effectTable(t, postgres.DSN())
	env := append(os.Environ(), chainDir+"="+dir, chainNATS+"="+broker.URL(), chainDSN+"="+postgres.DSN())

	killed, rounds := 0, 1
	startConsumer := func() *program {
		return startProgram(t, env, chainRole+"=consumer", fmt.Sprintf("%s=%d", chainDeath, 1+rng.IntN(4)))
	}
	consumer := startConsumer()
	relay := startProgram(t, env, chainRole+"=relay", fmt.Sprintf("%s=round%d", chainName, rounds))
	for drained := false; !drained; {
		select {
		case <-consumer.ended:
			if consumer.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the consumer ended by itself:\n%s", consumer.said.Bytes())
			}
			killed++
			consumer = startConsumer()
		case <-relay.ended:
			if !relay.cmd.ProcessState.Success() {
				t.Fatalf("the relay ended by itself: %v\n%s", relay.cmd.ProcessState, relay.said.Bytes())
			}
			if drained = killed >= kills && rounds > 1; drained {
				break
			}
			rounds++
			relay = startProgram(t, env, chainRole+"=relay", fmt.Sprintf("%s=round%d", chainName, rounds))
		case <-time.After(time.Duration(rng.IntN(int(300 * time.Millisecond)))):
			if killed >= kills {
				break
			}
			killed++
			switch victim := rng.IntN(10); {
			case victim < 4:
				consumer.kill()
				consumer = startConsumer()
			case victim < 8:
				relay.kill()
				relay = startProgram(t, env, chainRole+"=relay", fmt.Sprintf("%s=round%d", chainName, rounds))
			case victim < 9:
				killServer(t, broker)
			default:
				killServer(t, postgres)
			}
		}
	}
	consumer.kill()
	consumer = startProgram(t, env, chainRole+"=consumer") // this one is killed only after it has handled everything
	sent := awaitHandled(t, broker.URL())
	consumer.kill()
	figure(t, "kills", "%d", killed)
	figure(t, "records", "%d", pages)
	figure(t, "messages", "%d", sent)

	want := eventsOf(t, filepath.Join(dir, "pages.jsonl"))
	if len(want) != pages {
		t.Errorf("%d records, want %d", len(want), pages)
	}
	compareEffects(t, pool, chainWhere+" ", want)
}

func killServer(t *testing.T, server interface {
	Kill() error
	Restart() error
}) {
	t.Helper()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
}

// program is a process that runs TestChainProgram.
type program struct {
	cmd   *exec.Cmd
	said  bytes.Buffer  // its output
	ended chan struct{} // closed when it has ended
}

// startProgram starts TestChainProgram in another process.
func startProgram(t *testing.T, env []string, more ...string) *program {
	t.Helper()
	p := &program{cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestChainProgram$"), ended: make(chan struct{})}
	p.cmd.Env = append(env[:len(env):len(env)], more...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	return p
}

func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// awaitHandled waits until the consumer has handled all messages of the stream, and
// returns the number of messages.
func awaitHandled(t *testing.T, url string) uint64 {
	t.Helper()
	client, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	js, err := jetstream.New(client)
	if err != nil {
		t.Fatal(err)
	}
	least, progress := uint64(math.MaxUint64), time.Now()
	for ; ; time.Sleep(20 * time.Millisecond) {
		consumer, err := js.Consumer(t.Context(), "crawler", "pages")
		if err == nil {
			info := consumer.CachedInfo()
			left := info.NumPending + uint64(info.NumAckPending)
			if left == 0 {
				return info.Delivered.Stream
			}
			if left < least {
				least, progress = left, time.Now()
			}
		}
		if time.Since(progress) > 3*time.Minute {
			t.Fatalf("%d messages are left, and for three minutes none was handled (%v)", least, err)
		}
	}
}

// TestChainProgram is not a test. In a process that TestInboxKilled starts, it is the
// relay or the consumer.
func TestChainProgram(t *testing.T) {
	var err error
	switch role := os.Getenv(chainRole); role {
	case "":
		t.Skip("not a test: TestInboxKilled runs it as a program")
	case "relay":
		err = runRelay(t.Context(), os.Getenv(chainDir), os.Getenv(chainName), os.Getenv(chainNATS))
	default:
		err = runConsumer(t.Context(), os.Getenv(chainDSN), os.Getenv(chainNATS))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func runRelay(ctx context.Context, dir, name, url string) error {
	sink, err := sinks.Open(ctx, url+"/crawler", sinks.Config{Create: true, Window: time.Second, Timeout: 2 * time.Second})
	if err != nil {
		return err
	}
	defer sink.Close()
	info, err := os.Stat(filepath.Join(dir, "pages.jsonl"))
	if err != nil {
		return err
	}
	end := frontier.Position{{File: info.Name(), Length: info.Size()}} // the crawl has finished
	outbox := files.New(files.Config{Dir: dir, Source: chainWhere,
		End: func(context.Context) (frontier.Position, error) { return end, nil }})
	defer outbox.Close()
	return events.Run(ctx, events.Config{Name: name, Outbox: outbox, Sink: sink, Progress: files.NewProgress(dir)}, true)
}

func runConsumer(ctx context.Context, dsn, url string) error {
	// There are enough connections even for a faulty handler that writes outside its
	// transaction.
	pool, err := pgxpool.New(ctx, dsn+"&pool_max_conns=8")
	if err != nil {
		return err
	}
	defer pool.Close()
	var calls atomic.Int32
	death, _ := strconv.Atoi(os.Getenv(chainDeath)) // 0 if the consumer must not die
	var box *inbox.Inbox
	var consumer jetstream.Consumer
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) { // repeat until database, broker and stream are available
		if box, err = inbox.Open(ctx, inbox.Config{DB: pool, Group: "pages"}); err != nil {
			continue
		}
		client, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
		if err != nil {
			continue
		}
		js, err := jetstream.New(client)
		if err != nil {
			return err
		}
		consumer, err = js.CreateOrUpdateConsumer(ctx, "crawler", jetstream.ConsumerConfig{
			Durable: "pages", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 3 * time.Second, MaxDeliver: -1,
		})
		if err == nil {
			break
		}
		client.Close()
	}
	return inboxnats.Run(ctx, consumer, inboxnats.Config{
		Inbox: box, Attempts: 1 << 20, Backoff: 10 * time.Millisecond, // kills count as attempts
		Handle: func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
			_, err := tx.Exec(ctx, "INSERT INTO effect (event, url) SELECT $1, $2::jsonb->>'subject'", e.ID, string(e.Data))
			if int(calls.Add(1)) == death {
				dieHere()
			}
			return err
		},
	})
}
