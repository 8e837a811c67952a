// Package embedded is a store of answers in pebble, for services of one process.
//
// The program opens the pebble database, in which its own data is too, and closes it. Handlers
// write into the *pebble.Batch of their request: see Batch. One synced commit of this batch
// writes the effect and the answer. Which requests are under way is kept in memory, because only
// one process can open the database.
//
// The rows have keys with the prefix of the Config. The package does not isolate handlers from
// each other. If requests with different keys read and write the same data, the program runs them
// one after the other, with a lock around the Middleware, which commits.
package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/serve/idempotency"
)

// Config configures a Store. DB is required.
type Config struct {
	DB *pebble.DB
	// Prefix is the beginning of all keys of the Store; empty means "idempotency/". The program
	// writes no keys with this prefix, and opens one Store for each prefix.
	Prefix string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Store is an idempotency.Store in pebble. It is safe for concurrent use.
//
// The keys of rows are the prefix, an r, and the ID. For each row there is a second entry, whose
// key is the prefix, an e, the expiry in microseconds with 8 bytes, and the ID. If a row is
// replaced, its old entry stays until it is swept.
type Store struct {
	db     *pebble.DB
	prefix []byte
	now    func() time.Time

	mu       sync.Mutex
	underWay map[idempotency.ID]bool
	swept    []byte // all entries below this key are deleted; protects a sweep from reading their tombstones

	// commits is held for reading while a row is written, and for writing while expired rows are
	// read and deleted, so that a sweep does not delete a row that replaces an expired one.
	commits sync.RWMutex
}

var _ idempotency.Store = (*Store)(nil)

// row is the value of a row.
type row struct {
	Expires int64 // microseconds since 1970
	Digest  []byte
	Answer  *idempotency.Answer // nil in a slot of an issued key
}

// New returns the store in cfg.DB.
func New(cfg Config) (*Store, error) {
	if cfg.DB == nil {
		return nil, errors.New("embedded: Config.DB is nil")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	prefix := []byte(cmp.Or(cfg.Prefix, "idempotency/"))
	return &Store{db: cfg.DB, prefix: prefix, now: cfg.Now, underWay: make(map[idempotency.ID]bool)}, nil
}

type batchKey struct{}

// Batch returns the batch of the request whose context is ctx. The handler writes its effect into
// it, and can read its own writes from it. It does not commit or close the batch. Batch panics if
// ctx is not from a handler behind a Middleware with a Store of this package.
func Batch(ctx context.Context) *pebble.Batch {
	batch, ok := ctx.Value(batchKey{}).(*pebble.Batch)
	if !ok {
		panic("embedded: the context has no batch: the handler needs a Middleware, and one of POST, PATCH, PUT and DELETE")
	}
	return batch
}

// Do implements idempotency.Store.
func (s *Store) Do(ctx context.Context, r idempotency.Request, effect func(context.Context) idempotency.Result) (*idempotency.Answer, error) {
	found, err := s.find(r.ID)
	if err != nil {
		return nil, err
	}
	// A commit is visible before it is synced. If the request is not under way after the row was
	// read, the row is synced.
	if found != nil && found.Answer != nil && !s.isUnderWay(r.ID) {
		return replay(found, r)
	}
	if !s.start(r.ID) {
		return nil, idempotency.ErrUnderWay
	}
	defer s.finish(r.ID)
	found, err = s.find(r.ID) // again, because another call may have finished since then
	switch {
	case err != nil:
		return nil, err
	case found != nil && found.Answer != nil:
		return replay(found, r)
	case r.Issued && found == nil:
		return nil, idempotency.ErrUnknownKey
	}
	crash.Point("idempotency started")
	batch := s.db.NewIndexedBatch()
	defer func() { _ = batch.Close() }() // it only frees memory
	result := effect(context.WithValue(ctx, batchKey{}, batch))
	crash.Point("idempotency effect")
	if !result.Commit {
		batch.Reset()
	}
	var entry []byte
	if result.Answer != nil {
		if entry, err = s.put(batch, r.ID, row{Digest: r.Digest[:], Answer: result.Answer}, r.TTL); err != nil {
			return nil, err
		}
	}
	if batch.Empty() {
		return nil, nil
	}
	crash.Point("idempotency answer")
	err = s.commit(batch, entry)
	crash.Point("idempotency committed")
	return nil, err
}

// replay returns the answer of a row.
func replay(found *row, r idempotency.Request) (*idempotency.Answer, error) {
	if !bytes.Equal(found.Digest, r.Digest[:]) {
		return nil, idempotency.ErrOtherPayload
	}
	return found.Answer, nil
}

func (s *Store) isUnderWay(id idempotency.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.underWay[id]
}

// start marks a request as under way, and reports whether it was not.
func (s *Store) start(id idempotency.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underWay[id] {
		return false
	}
	s.underWay[id] = true
	return true
}

func (s *Store) finish(id idempotency.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.underWay, id)
}

// commit commits a batch. The entry is the result of put, or nil.
func (s *Store) commit(batch *pebble.Batch, entry []byte) error {
	s.commits.RLock()
	defer s.commits.RUnlock()
	if err := batch.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("embedded: commit: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry != nil && bytes.Compare(entry, s.swept) < 0 { // the clock went back, or the commit took longer than the TTL
		s.swept = entry
	}
	return nil
}

func (s *Store) rowKey(id []byte) []byte { return append(append(bytes.Clone(s.prefix), 'r'), id...) }

func (s *Store) expiryKey(micros int64, id []byte) []byte {
	key := append(bytes.Clone(s.prefix), 'e')
	return append(binary.BigEndian.AppendUint64(key, uint64(micros)), id...)
}

// put writes a row that expires after ttl, and its entry for the sweep, into a batch. It returns
// the key of the entry.
func (s *Store) put(batch *pebble.Batch, id idempotency.ID, r row, ttl time.Duration) (entry []byte, err error) {
	r.Expires = s.now().Add(ttl).UnixMicro()
	entry = s.expiryKey(r.Expires, id[:])
	value, err := json.Marshal(r)
	if err == nil {
		err = errors.Join(batch.Set(s.rowKey(id[:]), value, nil), batch.Set(entry, nil, nil))
	}
	if err != nil {
		return nil, fmt.Errorf("embedded: write the row of an answer: %w", err)
	}
	return entry, nil
}

// find returns a row, or nil if there is none or it has expired.
func (s *Store) find(id idempotency.ID) (*row, error) {
	found, err := s.read(id[:])
	if err != nil || found == nil || found.Expires <= s.now().UnixMicro() {
		return nil, err
	}
	return found, nil
}

// read returns a row, or nil if there is none.
func (s *Store) read(id []byte) (*row, error) {
	value, closer, err := s.db.Get(s.rowKey(id))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	found := new(row)
	if err == nil {
		err = errors.Join(json.Unmarshal(value, found), closer.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("embedded: read the row of an answer: %w", err)
	}
	return found, nil
}

// Reserve implements idempotency.Store.
func (s *Store) Reserve(_ context.Context, id idempotency.ID, ttl time.Duration) (time.Time, error) {
	batch := s.db.NewBatch()
	defer func() { _ = batch.Close() }() // it only frees memory
	expires := s.now().Add(ttl)
	entry, err := s.put(batch, id, row{}, ttl)
	if err == nil {
		err = s.commit(batch, entry)
	}
	return expires, err
}

// Sweep implements idempotency.Store. The old entry of a row that was replaced counts as a row.
// Sweep does not sync: a row that comes back after a crash has expired.
func (s *Store) Sweep(_ context.Context, limit int) (deleted int, err error) {
	s.commits.Lock()
	defer s.commits.Unlock()
	batch := s.db.NewBatch()
	defer func() { _ = batch.Close() }() // it only frees memory
	var last []byte
	err = s.expired(func(key []byte, expires int64, id []byte) (more bool, err error) {
		found, err := s.read(id)
		if err != nil {
			return false, err
		}
		if found != nil && found.Expires == expires {
			err = batch.Delete(s.rowKey(id), nil)
		}
		deleted++
		last = append(bytes.Clone(key), 0)
		return deleted < limit, errors.Join(err, batch.Delete(key, nil))
	})
	if err == nil && !batch.Empty() {
		err = batch.Commit(pebble.NoSync)
	}
	if err != nil {
		return 0, fmt.Errorf("embedded: sweep: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last != nil {
		s.swept = last
	}
	return deleted, nil
}

// Stats implements idempotency.Store.
func (s *Store) Stats(context.Context) (stats idempotency.Stats, err error) {
	err = s.expired(func(_ []byte, expires int64, _ []byte) (bool, error) {
		stats.SweepLag = max(s.now().Sub(time.UnixMicro(expires)), 0)
		return false, nil
	})
	return stats, err
}

// expired calls visit with the entries of expired rows, oldest first, until it returns false.
func (s *Store) expired(visit func(key []byte, expires int64, id []byte) (more bool, err error)) error {
	s.mu.Lock()
	from := s.swept
	s.mu.Unlock()
	if from == nil {
		from = s.expiryKey(0, nil)
	}
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: s.expiryKey(s.now().UnixMicro()+1, nil)})
	if err != nil {
		return err
	}
	start := len(s.prefix) + 1
	for more := iter.First(); more && err == nil; more = more && iter.Next() {
		key := iter.Key()
		more, err = visit(key, int64(binary.BigEndian.Uint64(key[start:])), key[start+8:])
	}
	return errors.Join(err, iter.Error(), iter.Close())
}
