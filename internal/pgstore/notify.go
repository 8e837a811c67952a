package pgstore

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// background is a goroutine. A call of begin starts it, and a call of close ends it.
type background struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil before begin
	closed bool
	done   sync.WaitGroup
}

// begin calls the function run in a goroutine, unless begin or close was called before. A
// call of close cancels the context of the function run.
func (b *background) begin(run func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil || b.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	b.done.Go(func() { run(ctx) })
}

func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	if b.cancel != nil {
		b.cancel()
	}
	b.mu.Unlock()
	b.done.Wait()
}

// offer sends a value to a channel of capacity 1, unless the channel is full.
func offer(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// notifyPause is the shortest time between two notifications of one process.
const notifyPause = 100 * time.Millisecond

// notify tells the relays that there are new records. It returns before the notification is
// sent. A separate transaction sends the notification after the commit of the records. If a
// notification is lost, relays find the records when they next read the outbox.
func (s *Store) notify() {
	s.notifier.begin(func(ctx context.Context) {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-s.news:
				s.sendNotification(ctx)
				pause(ctx, notifyPause)
			}
		}
	})
	offer(s.news)
}

// sendNotification notifies the relays of the crawl. It ignores errors.
func (s *Store) sendNotification(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StatementTimeout)
	defer cancel()
	_ = s.run(ctx, s.sql("notify"), []any{s.crawl}, nil)
}

// listenPause is how long a relay waits before it tries to listen again.
const listenPause = time.Second

// Changed returns a channel that receives a value when records were probably committed.
// The channel can miss some commits. Every call returns the same channel.
func (s *Store) Changed() <-chan struct{} {
	s.listener.begin(func(ctx context.Context) {
		for ctx.Err() == nil {
			s.listen(ctx)
			pause(ctx, listenPause)
		}
	})
	return s.changed
}

// listen sends a value to s.changed at the beginning and for each notification, until its
// connection breaks or ctx ends. Through a pooler it waits for the end of ctx, because a session
// of a pooler in transaction mode would receive the notifications for another client.
func (s *Store) listen(ctx context.Context) {
	conn, err := s.dial(ctx)
	if err != nil {
		return
	}
	defer hangUp(conn)
	if isPooled(conn) {
		hangUp(conn)
		offer(s.changed)
		<-ctx.Done()
		return
	}
	_, err = conn.Exec(ctx, "LISTEN crawler_record_"+strconv.Itoa(s.crawl))
	for err == nil {
		offer(s.changed)
		_, err = conn.WaitForNotification(ctx)
	}
}

// dial returns a connection that does not belong to the pool.
func (s *Store) dial(ctx context.Context) (*pgx.Conn, error) {
	config := s.pool.Config().ConnConfig.Copy()
	s.settings.applyTo(config)
	return pgx.ConnectConfig(ctx, config)
}

// hangUp closes a connection that dial returned.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // an error does not matter: the server ends the session in any case
}
