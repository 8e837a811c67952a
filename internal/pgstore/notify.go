package pgstore

import (
	"context"
	"strconv"
	"sync"
	"time"
)

// notifyPause is the shortest time between two notifications of one process.
const notifyPause = 100 * time.Millisecond

// notifier notifies relays of new records. It does so after the commit of the records,
// with a separate transaction. If a notification is lost, relays find the records when
// they next read the outbox.
type notifier struct {
	notify func(context.Context)

	mu     sync.Mutex
	news   chan struct{} // nil before the first wake
	cancel context.CancelFunc
	closed bool
	done   sync.WaitGroup
}

// wake starts a notification of the relays. It does not wait until that is sent.
func (n *notifier) wake() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	if n.news == nil {
		ctx, cancel := context.WithCancel(context.Background())
		n.news, n.cancel = make(chan struct{}, 1), cancel
		n.done.Go(func() { n.run(ctx) })
	}
	select {
	case n.news <- struct{}{}:
	default: // a notification is about to be sent
	}
}

func (n *notifier) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.news:
		}
		n.notify(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(notifyPause):
		}
	}
}

func (n *notifier) close() {
	n.mu.Lock()
	n.closed = true
	if n.cancel != nil {
		n.cancel()
	}
	n.mu.Unlock()
	n.done.Wait()
}

// notify notifies the relays of the crawl. It ignores errors.
func (s *Store) notify(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StatementTimeout)
	defer cancel()
	_, _ = s.pool.Exec(ctx, s.sql("notify"), s.crawl)
}

// listenPause is how long a relay waits before it tries to listen again.
const listenPause = time.Second

// listener receives notifications.
type listener struct {
	mu      sync.Mutex
	changed chan struct{} // nil before the first call of Changed
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// Changed returns a channel that receives a value when records may have been committed. It
// may miss some. Every call returns the same channel.
func (s *Store) Changed() <-chan struct{} {
	l := &s.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		ctx, cancel := context.WithCancel(context.Background())
		l.changed, l.cancel = make(chan struct{}, 1), cancel
		l.done.Go(func() {
			for ctx.Err() == nil {
				s.listen(ctx, l.changed)
				select {
				case <-ctx.Done():
				case <-time.After(listenPause):
				}
			}
		})
	}
	return l.changed
}

// listen sends a value to changed for each notification, and one at the beginning, until its
// connection breaks or ctx ends.
func (s *Store) listen(ctx context.Context, changed chan<- struct{}) {
	conn, err := s.dial(ctx)
	if err != nil {
		return
	}
	defer hangUp(conn)
	_, err = conn.Exec(ctx, "LISTEN crawler_record_"+strconv.Itoa(s.crawl))
	for err == nil {
		select {
		case changed <- struct{}{}:
		default:
		}
		_, err = conn.WaitForNotification(ctx)
	}
}

func (l *listener) close() {
	l.mu.Lock()
	if l.cancel != nil {
		l.cancel()
	}
	l.mu.Unlock()
	l.done.Wait()
}
