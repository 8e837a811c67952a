package embedded_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/bloomfrontier/crawler/serve/idempotency"
	"github.com/bloomfrontier/crawler/serve/idempotency/embedded"
	"github.com/bloomfrontier/crawler/serve/idempotency/idempotencytest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// backend is a store on a disk that can lose what was not synced.
type backend struct {
	t     testing.TB
	now   func() time.Time
	dir   string
	disk  vfs.FS
	db    *pebble.DB
	store *embedded.Store
	image *vfs.MemFS // what is left after a crash
}

// effects counts the writes with a name: handlers merge a 1 into the value.
var effects = &pebble.Merger{Name: "effects", Merge: func(_, value []byte) (pebble.ValueMerger, error) {
	return &sum{binary.BigEndian.Uint64(value)}, nil
}}

type sum struct{ n uint64 }

func (s *sum) MergeNewer(value []byte) error { s.n += binary.BigEndian.Uint64(value); return nil }
func (s *sum) MergeOlder(value []byte) error { return s.MergeNewer(value) }
func (s *sum) Finish(bool) ([]byte, io.Closer, error) {
	return binary.BigEndian.AppendUint64(nil, s.n), nil, nil
}

// silent is a logger of pebble that writes nothing.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(format) }

func (b *backend) open() {
	var err error
	b.db, err = pebble.Open(b.dir, &pebble.Options{FS: b.disk, Logger: silent{}, Merger: effects})
	must(b.t, err)
	b.store, err = embedded.New(embedded.Config{DB: b.db, Now: b.now})
	must(b.t, err)
}

func (b *backend) Store() idempotency.Store { return b.store }

func (b *backend) Write(ctx context.Context, name string) error {
	return embedded.Batch(ctx).Merge([]byte("effect"+name), binary.BigEndian.AppendUint64(nil, 1), nil)
}

func (b *backend) Count(name string) (int, error) {
	value, closer, err := b.db.Get([]byte("effect" + name))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer closer.Close()
	return int(binary.BigEndian.Uint64(value)), nil
}

// Crash keeps what is on the disk, and a random part of what was not synced.
func (b *backend) Crash() {
	b.image = b.disk.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: rand.IntN(101), RNG: rand.New(rand.NewPCG(rand.Uint64(), 1)),
	})
}

func (b *backend) Restart() {
	must(b.t, b.db.Close())
	b.disk = b.image
	b.open()
}

func openInMemory(t testing.TB, now func() time.Time) idempotencytest.Backend {
	b := &backend{t: t, now: now, dir: "db", disk: vfs.NewCrashableMem()}
	b.open()
	t.Cleanup(func() { _ = b.db.Close() })
	return b
}

func TestConformance(t *testing.T) { idempotencytest.Run(t, openInMemory) }

func BenchmarkRequest(b *testing.B) {
	idempotencytest.Bench(b, func(t testing.TB, now func() time.Time) idempotencytest.Backend {
		onDisk := &backend{t: t, now: now, dir: t.TempDir(), disk: vfs.Default}
		onDisk.open()
		t.Cleanup(func() { must(t, onDisk.db.Close()) })
		return onDisk
	})
}

// TestVisibleBeforeSync: pebble shows a commit to readers before it is synced. Until then, no
// request gets the answer, because a power loss could still undo it.
func TestVisibleBeforeSync(t *testing.T) {
	t.Parallel()
	var stalled atomic.Bool
	proceed := make(chan struct{})
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		syncs := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
		if syncs && strings.HasSuffix(op.Path, ".log") && stalled.Load() {
			<-proceed
		}
		return nil
	}))
	b := &backend{t: t, now: time.Now, dir: "db", disk: disk}
	b.open()
	t.Cleanup(func() { must(t, b.db.Close()) })
	r := idempotency.Request{ID: idempotency.ID{1}, TTL: time.Hour}
	do := func() (*idempotency.Answer, error) {
		return b.store.Do(t.Context(), r, func(ctx context.Context) idempotency.Result {
			if err := b.Write(ctx, "k"); err != nil {
				t.Error(err)
			}
			return idempotency.Result{Commit: true, Answer: &idempotency.Answer{Status: 201}}
		})
	}
	stalled.Store(true)
	done := make(chan error, 1)
	go func() { _, err := do(); done <- err }()
	for n := 0; n == 0; {
		var err error
		n, err = b.Count("k")
		must(t, err)
	}
	replay, err := do()
	close(proceed)
	must(t, <-done)
	if !errors.Is(err, idempotency.ErrUnderWay) {
		t.Errorf("before the sync, a second request gets %v, %v, want ErrUnderWay", replay, err)
	}
	if replay, err := do(); replay == nil || err != nil {
		t.Errorf("after the sync, a repeat gets %v, %v, want the answer", replay, err)
	}
}

// answer is an effect with an answer.
func answer(context.Context) idempotency.Result {
	return idempotency.Result{Commit: true, Answer: &idempotency.Answer{Status: 201}}
}

// TestAnsweredBetween: another request with the key begins and ends after this one has looked for
// an answer, and before it starts. The clock of the store, which is asked in between because there
// is an expired row, makes the other request.
func TestAnsweredBetween(t *testing.T) {
	t.Parallel()
	now, between := time.Now(), func() {}
	b := openInMemory(t, func() time.Time {
		f := between
		between = func() {}
		f()
		return now
	}).(*backend)
	r := idempotency.Request{ID: idempotency.ID{1}, TTL: time.Hour}
	_, err := b.store.Do(t.Context(), r, answer)
	must(t, err)
	now = now.Add(time.Hour)
	between = func() {
		if replay, err := b.store.Do(t.Context(), r, answer); replay != nil || err != nil {
			t.Errorf("the request between gets %v, %v, want a first answer", replay, err)
		}
	}
	// Without the clock, the row of the request between would be read at once.
	if replay, err := b.store.Do(t.Context(), r, answer); replay == nil || err != nil {
		t.Errorf("the request gets %v, %v, want the answer of the request between", replay, err)
	}
}

// TestSweepRace: a request replaces an expired row while the row is swept.
func TestSweepRace(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	b := openInMemory(t, func() time.Time { return time.UnixMicro(now.Load()) }).(*backend)
	r := idempotency.Request{ID: idempotency.ID{1}, TTL: time.Hour}
	for round := range 3000 {
		now.Add(time.Hour.Microseconds())
		var over sync.WaitGroup
		over.Go(func() {
			if _, err := b.store.Sweep(t.Context(), 10); err != nil {
				t.Error(err)
			}
		})
		_, err := b.store.Do(t.Context(), r, answer)
		must(t, err)
		over.Wait()
		if replay, err := b.store.Do(t.Context(), r, answer); replay == nil || err != nil {
			t.Fatalf("in round %d the repeat gets %v, %v, want the answer: it was swept", round, replay, err)
		}
	}
}

// TestSweptStaysSmall: the sweep leaves no entries and no rows, also of keys that were used again.
func TestSweptStaysSmall(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := openInMemory(t, func() time.Time { return now }).(*backend)
	for range 3 {
		for i := range 10 {
			_, err := b.store.Do(t.Context(), idempotency.Request{ID: idempotency.ID{byte(i)}, TTL: time.Hour},
				func(context.Context) idempotency.Result {
					return idempotency.Result{Answer: &idempotency.Answer{Status: 409}}
				})
			must(t, err)
		}
		now = now.Add(time.Hour)
	}
	deleted := 0
	for n := 1; n > 0; deleted += n {
		var err error
		n, err = b.store.Sweep(t.Context(), 7)
		must(t, err)
	}
	iter, err := b.db.NewIter(nil)
	must(t, err)
	if iter.First() {
		t.Errorf("after the sweep of %d, there is the key %q", deleted, iter.Key())
	}
	must(t, iter.Close())
}

// TestNew: New explains what is wrong.
func TestNew(t *testing.T) {
	t.Parallel()
	if _, err := embedded.New(embedded.Config{}); err == nil {
		t.Error("New accepts a Config without DB")
	}
}

// TestClockGoesBack: a row whose expiry is before the last sweep is swept too.
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := openInMemory(t, func() time.Time { return now }).(*backend)
	for id := range 2 {
		_, err := b.store.Do(t.Context(), idempotency.Request{ID: idempotency.ID{byte(id)}, TTL: time.Hour}, answer)
		must(t, err)
		now = now.Add(time.Hour)
		if deleted, err := b.store.Sweep(t.Context(), 9); deleted != 1 || err != nil {
			t.Errorf("sweep %d deletes %d rows (%v), want 1", id, deleted, err)
		}
		now = now.Add(-3 * time.Hour)
	}
}
