package proofs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/localstore"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// quickWeb returns a small web that a crawl without delay finishes quickly. The web has no
// huge pages, and no hardships (difficulties for crawlers) that make a crawl wait.
func quickWeb(t *testing.T, seed uint64) *testweb.Web {
	t.Helper()
	web, err := testweb.New(testweb.Config{
		Seed: seed, Hosts: 6, Pages: sized(150, 400), MeanBytes: 2 << 10, MeanLinks: 8, MaxBodyBytes: maxBody,
		CrawlDelay: time.Millisecond,
		Hardships:  testweb.All &^ (testweb.Dead | testweb.Latency | testweb.Slow | testweb.Throttling | testweb.Huge),
	})
	if err != nil {
		t.Fatal(err)
	}
	return web
}

// wire is an http.RoundTripper that sends requests to a web without a network.
type wire struct {
	web      http.Handler
	requests atomic.Int64 // number of requests so far
	alarmAt  atomic.Int64 // number of the request that calls alarm
	alarm    func()
}

// RoundTrip implements http.RoundTripper. It calls the alarm before the web answers.
func (w *wire) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	if w.requests.Add(1) == w.alarmAt.Load() {
		w.alarm()
	}
	request := r.Clone(r.Context())
	request.RequestURI, request.Host = r.URL.RequestURI(), r.URL.Host
	recorder := httptest.NewRecorder()
	defer func() {
		if what := recover(); what == http.ErrAbortHandler { // the web hung up
			answer, err = nil, syscall.ECONNRESET
		} else if what != nil {
			panic(what)
		}
	}()
	w.web.ServeHTTP(recorder, request)
	return recorder.Result(), nil
}

// machine is a crawl in this process whose store and records are on one simulated disk.
// It simulates a computer between its start and a power loss.
type machine struct {
	store *localstore.Store
	files *record.Files
	crawl *fetcher.Crawl
}

func boot(disk vfs.FS, w *wire) (*machine, error) {
	m := new(machine)
	var err error
	m.store, err = localstore.Open(localstore.Config{
		Dir: "crawl", FS: disk, CheckpointAdds: 20,
		Filter: membits.Config{Capacity: 4000, FPR: 1e-6, Growth: membits.GrowthOn, Shards: 4},
		OpenOutput: func(_ frontier.Identity, position frontier.Position) (_ frontier.Output, err error) {
			m.files, err = record.Open(record.Config{Dir: "crawl", FS: disk, RotateBytes: 8 << 10}, position)
			return m.files, err
		},
	})
	if err != nil {
		return nil, err
	}
	client, err := get.New(get.Config{Transport: w, MaxBodyBytes: maxBody})
	if err != nil {
		return nil, errors.Join(err, m.store.Close())
	}
	rules := policy.Default(time.Now())
	rules.Rules.Scope = canon.ScopeAny
	rules.Politeness = politeness.Policy{BackoffBase: time.Millisecond, BackoffMax: 2 * time.Millisecond, RetryBase: time.Millisecond}
	m.crawl, err = fetcher.New(fetcher.Config{
		Store: m.store, Client: client, Sink: m.files, Policy: policy.NewLive(rules).Load,
		Concurrency: 4, Grace: time.Nanosecond,
	})
	if err != nil {
		return nil, errors.Join(err, m.store.Close())
	}
	return m, nil
}

// run adds the seeds and crawls until no URL is left or the context stop is done.
func (m *machine) run(stop context.Context, seeds []string) (fetcher.End, error) {
	if _, err := m.crawl.Seeds(stop, seeds); err != nil {
		return "", err
	}
	return m.crawl.Run(stop)
}

func read(t *testing.T, disk vfs.FS) []byte {
	t.Helper()
	var all bytes.Buffer
	name := func(n int) string { return disk.PathJoin("crawl", fmt.Sprintf("pages-%06d.jsonl", n)) }
	for n := 1; ; n++ {
		last := name(n)
		if _, err := disk.Stat(last); err != nil {
			last = disk.PathJoin("crawl", "pages.jsonl")
		}
		file, err := disk.Open(last)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&all, file); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		if last != name(n) {
			return all.Bytes()
		}
	}
}

// checkWhole checks that the records of a finished crawl are exactly the expected ones,
// and closes the crawl. lives is the number of runs that offered the seeds.
func checkWhole(t *testing.T, web *testweb.Web, m *machine, disk vfs.FS, lives int) {
	t.Helper()
	stats, err := m.store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	written := read(t, disk)
	audit(t, m.store, int(stats.Done+stats.Failed), "the end")
	if err := errors.Join(m.store.Close(), m.files.Close()); err != nil {
		t.Error(err)
	}
	compareRecords(t, web, written)
	checkBooks(t, stats, parse(t, written), len(web.Seeds()), lives)
}

// TestPowerLoss runs crawls whose store and records are on one disk. Several times, at
// random moments, the disk loses data that were not synced, and the crawl is resumed.
// At the end, it must have exactly the records of a crawl without a loss.
func TestPowerLoss(t *testing.T) {
	seed := newSeed(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	losses, crawls := 0, sized(5, 300)
	for range crawls {
		web := quickWeb(t, rng.Uint64())
		losses += losePower(t, web, rng)
		if t.Failed() {
			t.Fatalf("failed in the crawl that ended after %d power losses of all crawls with this seed", losses)
		}
	}
	figure(t, "crawls", "%d crawls over %d power losses: each ended with exactly the expected records, every URL once, the books audited", crawls, losses)
}

// losePower crawls a web with some power losses, and returns the number of losses.
func losePower(t *testing.T, web *testweb.Web, rng *rand.Rand) (losses int) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	w := &wire{web: web.Handler()}
	for range 1 + rng.IntN(5) {
		next := lifeUntilLoss(t, web, w, disk, rng)
		if next == nil {
			break // the crawl finished first
		}
		disk = next
		losses++
	}
	w.alarmAt.Store(0)
	m, err := boot(disk, w)
	if err != nil {
		t.Fatalf("after %d power losses: %v", losses, err)
	}
	if end, err := m.run(t.Context(), web.Seeds()); err != nil || end != fetcher.Empty {
		t.Fatalf("Run = %q, %v; want %q", end, err, fetcher.Empty)
	}
	checkWhole(t, web, m, disk, losses+2)
	return losses
}

// lifeUntilLoss crawls until a power loss, and returns the state of the disk after the
// loss. It returns nil if the crawl finished first.
func lifeUntilLoss(t *testing.T, web *testweb.Web, w *wire, disk *vfs.MemFS, rng *rand.Rand) (left *vfs.MemFS) {
	t.Helper()
	stop, cut := context.WithCancel(t.Context())
	defer cut()
	kept := vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}
	lost := make(chan struct{})
	// A separate goroutine clones the disk while the crawl's goroutines continue. So the
	// loss can come at any point of their work.
	cloned := make(chan *vfs.MemFS, 1)
	go func() {
		select {
		case <-lost:
			cloned <- disk.CrashClone(kept)
			cut()
		case <-stop.Done():
			cloned <- nil
		}
	}()
	points := int64(1 + rng.IntN(120))
	var once atomic.Bool
	loss := func() {
		if once.CompareAndSwap(false, true) {
			close(lost)
		}
	}
	if rng.IntN(2) == 0 { // the loss is at a request, or at a crash point of the store
		w.alarm = loss
		w.alarmAt.Store(w.requests.Load() + points)
	} else {
		var seen atomic.Int64
		crash.Hook(func(string) {
			if seen.Add(1) == points {
				loss()
			}
		})
		defer crash.Hook(nil)
	}
	m, err := boot(disk, w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.run(stop, web.Seeds()); err != nil && stop.Err() == nil {
		t.Fatal(err)
	}
	cut()
	m.crawl.Abort()
	if err := errors.Join(m.store.Close(), m.files.Close()); err != nil {
		t.Error(err)
	}
	return <-cloned
}

// TestDiskErrors makes a random write to the disk fail. In half of the crawls, all later
// writes fail too. The crawl must return the error of the failed write. Then there is a
// power loss, and the disk works again. The resumed crawl must have exactly the expected
// records.
func TestDiskErrors(t *testing.T) {
	seed := newSeed(t)
	rng := rand.New(rand.NewPCG(seed, 4))
	failed, crawls := 0, sized(10, 500)
	for range crawls {
		web := quickWeb(t, rng.Uint64())
		failed += failDisk(t, web, rng)
		if t.Failed() {
			t.FailNow()
		}
	}
	figure(t, "crawls", "%d crawls, of which the disk failed %d at a random write: one error each, then exactly the expected records", crawls, failed)
}

// failDisk crawls a web with one failure of the disk. It returns 1, or 0 if the crawl
// finished before the failure.
func failDisk(t *testing.T, web *testweb.Web, rng *rand.Rand) (failed int) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	w := &wire{web: web.Handler()}
	var writes atomic.Int64
	at, permanent := int64(1+rng.IntN(1500)), rng.IntN(2) == 0
	broken := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		if n := writes.Add(1); n == at || n > at && permanent {
			return syscall.ENOSPC
		}
		return nil
	}))
	err := crawlOnce(t, broken, w, web.Seeds())
	switch {
	case err == nil && writes.Load() >= at:
		t.Errorf("write %d failed, but the crawl ended without an error", at)
	case err == nil:
		return 0
	case !errors.Is(err, syscall.ENOSPC):
		t.Errorf("write %d failed with ENOSPC, and the crawl ended with %v, want ENOSPC", at, err)
	}
	next := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	m, err := boot(next, w)
	if err != nil {
		t.Fatalf("boot after write %d failed: %v", at, err)
	}
	if end, err := m.run(t.Context(), web.Seeds()); err != nil || end != fetcher.Empty {
		t.Fatalf("Run = %q, %v; want %q", end, err, fetcher.Empty)
	}
	checkWhole(t, web, m, next, 2)
	return 1
}

// crawlOnce runs a crawl on a disk to its end and closes everything. It returns the first
// error.
func crawlOnce(t *testing.T, disk vfs.FS, w *wire, seeds []string) error {
	t.Helper()
	m, err := boot(disk, w)
	if err != nil {
		return err
	}
	_, err = m.run(t.Context(), seeds)
	if closing := m.store.Close(); err == nil {
		err = closing
	}
	if closing := m.files.Close(); err == nil {
		err = closing
	}
	return err
}
