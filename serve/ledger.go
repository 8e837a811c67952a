package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bloomfrontier/crawler/serve/idempotency"
	"github.com/bloomfrontier/crawler/serve/idempotency/embedded"
)

// ledger stores what a Server keeps outside of its crawls: the answers of keys, a card for each crawl, and notes that expire. What
// was stored without an error is durable. A ledger is safe for concurrent use.
type ledger interface {
	// answers returns the stored answers of keys.
	answers() idempotency.Store
	// cards returns the cards by the names of their crawls.
	cards(ctx context.Context) (map[string][]byte, error)
	// putCard replaces the card of a crawl. A card of nil removes it.
	putCard(ctx context.Context, name string, card []byte) error
	// note returns a note, or nil if there is none or it has expired.
	note(ctx context.Context, key string) ([]byte, error)
	// putNote replaces a note, which is kept for ttl.
	putNote(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// sweep deletes notes that have expired.
	sweep(ctx context.Context) error
	// valid returns an error if another process may use the ledger.
	valid(ctx context.Context) error
	close() error
}

// localLedger is a ledger in a pebble database, which one process can open. A note begins with its expiry, in
// microseconds with 8 bytes.
type localLedger struct {
	db    *pebble.DB
	store *embedded.Store
	// sweeping is held for reading while a note is written, so that a sweep does not delete a note that replaces an
	// expired one.
	sweeping sync.RWMutex
}

const (
	cardPrefix = "card/"
	notePrefix = "note/"
)

// openLocal opens the ledger below a directory.
func openLocal(dir string) (*localLedger, error) {
	db, err := pebble.Open(filepath.Join(dir, "ledger"), &pebble.Options{
		FormatMajorVersion: pebble.FormatVirtualSSTables, CacheSize: 8 << 20, MemTableSize: 4 << 20, Logger: quiet{},
	})
	if err != nil {
		return nil, fmt.Errorf("serve: open the ledger: %w", err)
	}
	store, err := embedded.New(embedded.Config{DB: db})
	return &localLedger{db: db, store: store}, err
}

// quiet is a pebble.Logger that discards all messages, because errors are returned, too.
type quiet struct{}

func (quiet) Infof(string, ...any)             {}
func (quiet) Errorf(string, ...any)            {}
func (quiet) Fatalf(format string, arg ...any) { panic(fmt.Sprintf(format, arg...)) }

func (l *localLedger) answers() idempotency.Store  { return l.store }
func (l *localLedger) valid(context.Context) error { return nil }
func (l *localLedger) close() error                { return l.db.Close() }

func (l *localLedger) cards(context.Context) (map[string][]byte, error) {
	all := make(map[string][]byte)
	err := l.scan(cardPrefix, func(key string, value []byte) error {
		all[key] = append([]byte(nil), value...)
		return nil
	})
	return all, err
}

func (l *localLedger) putCard(_ context.Context, name string, card []byte) error {
	if card == nil {
		return l.db.Delete([]byte(cardPrefix+name), pebble.Sync)
	}
	return l.db.Set([]byte(cardPrefix+name), card, pebble.Sync)
}

func (l *localLedger) note(_ context.Context, key string) ([]byte, error) {
	value, closer, err := l.db.Get([]byte(notePrefix + key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = closer.Close() }() // it only frees memory
	if expired(value) {
		return nil, nil
	}
	return append([]byte(nil), value[8:]...), nil
}

func (l *localLedger) putNote(_ context.Context, key string, value []byte, ttl time.Duration) error {
	l.sweeping.RLock()
	defer l.sweeping.RUnlock()
	row := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(ttl).UnixMicro()))
	return l.db.Set([]byte(notePrefix+key), append(row, value...), pebble.Sync)
}

func expired(row []byte) bool {
	return len(row) < 8 || time.Now().UnixMicro() >= int64(binary.BigEndian.Uint64(row))
}

// sweep does not sync: a note that comes back after a crash has expired.
func (l *localLedger) sweep(ctx context.Context) error {
	return l.scan(notePrefix, func(key string, row []byte) error {
		if !expired(row) || ctx.Err() != nil {
			return ctx.Err()
		}
		l.sweeping.Lock()
		defer l.sweeping.Unlock()
		if value, err := l.note(ctx, key); value != nil || err != nil {
			return err // it was replaced meanwhile
		}
		return l.db.Delete([]byte(notePrefix+key), pebble.NoSync)
	})
}

// scan calls visit with the rows whose keys have a prefix, without this prefix.
func (l *localLedger) scan(prefix string, visit func(key string, value []byte) error) error {
	end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
	rows, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: []byte(end)})
	if err != nil {
		return err
	}
	for valid := rows.First(); valid && err == nil; valid = rows.Next() {
		err = visit(strings.TrimPrefix(string(rows.Key()), prefix), rows.Value())
	}
	return errors.Join(err, rows.Error(), rows.Close())
}
