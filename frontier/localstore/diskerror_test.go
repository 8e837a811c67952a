package localstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

var errBroken = errors.New("input/output error (injected)")

// TestDiskErrors breaks the n-th write of a small crawl, for every seventh n, or for every n
// with the flag -proof. Each time the crawl fails with the error of that write, and no call
// hangs. When the disk works again, the crawl has the effects of all answered calls.
func TestDiskErrors(t *testing.T) {
	t.Parallel()
	stride := int32(7)
	if *proof {
		stride = 1
	}
	seed, _ := suite.FirstSeed(*seed, 1)
	t.Logf("replay with -seed=%d", seed)
	failures := 0
	for n := 1 + int32(seed%uint64(stride)); ; n += stride {
		disk := vfs.NewMem()
		var left atomic.Int32
		left.Store(n)
		fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			// Failing to reserve space is not an error, and a lock is not an
			// operation of the disk.
			passed := op.Kind == errorfs.OpFilePreallocate || op.Kind == errorfs.OpFileFlush ||
				op.Kind == errorfs.OpFileClose || op.Kind == errorfs.OpLock
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && !passed && left.Add(-1) == 0 {
				return errBroken
			}
			return nil
		}))
		added, err := smallCrawl(fs)
		if left.Load() > 0 {
			if err != nil {
				t.Fatalf("no write was broken, but the crawl failed: %v", err)
			}
			break
		}
		if failures++; !errors.Is(err, errBroken) {
			t.Errorf("write %d was broken: the crawl failed with %v, want the error of this write", n, err)
		}
		verifySmallCrawl(t, fmt.Sprintf("after write %d", n), disk, added)
	}
	if failures < 10 {
		t.Errorf("only %d writes were broken, want at least 10", failures)
	}
	t.Logf("%d writes broken, one by one", failures)
}

// TestDiskFull simulates a full disk: after a number of writes every write fails.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, room := range []int32{5, 30, 60, 90} {
		disk := vfs.NewMem()
		var left atomic.Int32
		left.Store(room)
		fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			switch op.Kind {
			case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileWriteAt:
				if left.Add(-1) < 0 {
					return syscall.ENOSPC
				}
			}
			return nil
		}))
		added, err := smallCrawl(fs)
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("disk full after %d writes: the crawl failed with %v, want ENOSPC", room, err)
		}
		verifySmallCrawl(t, fmt.Sprintf("full after %d writes", room), disk, added)
	}
}

func smallConfig(fs vfs.FS) Config {
	return Config{
		Dir: "crawl", FS: fs, CheckpointAdds: 30,
		Filter: membits.Config{Capacity: 1000, Shards: 2},
		OpenOutput: func(_ frontier.Identity, position frontier.Position) (frontier.Output, error) {
			return openLines(fs, "crawl", position)
		},
	}
}

// smallCrawl adds, leases and completes pages with several callers at once, and closes
// the store. It returns the URLs of successful calls of Add, and the errors of all calls.
// It also returns an error if a call hangs or a failed store continues.
func smallCrawl(fs vfs.FS) (added map[string]bool, err error) {
	s, err := Open(smallConfig(fs))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	added = make(map[string]bool)
	var mu sync.Mutex
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for caller := range errs {
		wg.Go(func() {
			for round := 0; round < 12 && errs[caller] == nil; round++ {
				host := fmt.Sprintf("h%d.test", caller)
				items := smallItems(host, round)
				if _, errs[caller] = s.Add(ctx, items); errs[caller] != nil {
					return
				}
				mu.Lock()
				for _, item := range items {
					added[item.URL] = true
				}
				mu.Unlock()
				errs[caller] = smallLease(ctx, s, uint64(caller*100+round))
			}
		})
	}
	wg.Wait()
	return added, errors.Join(endSmall(s, errors.Join(errs...)), s.Close())
}

// endSmall checks that the calls of a failed store return its failure.
func endSmall(s *Store, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-s.Failed():
	default:
		return fmt.Errorf("the store has not failed, although a call returned %v", err)
	}
	if _, again := s.Stats(context.Background()); again == nil || again.Error() != s.Err().Error() {
		return fmt.Errorf("Stats of a failed store = %v, want its failure %v", again, s.Err())
	}
	if closed := s.Close(); closed == nil || closed.Error() != s.Err().Error() {
		return fmt.Errorf("Close of a failed store = %v, want its failure %v", closed, s.Err())
	}
	return err
}

func smallItems(host string, round int) []frontier.Offer {
	items := make([]frontier.Offer, 5)
	for i := range items {
		items[i] = frontier.Offer{URL: fmt.Sprintf("https://%s/%d-%d", host, round, i), Host: host}
	}
	return items
}

func smallLease(ctx context.Context, s *Store, n uint64) error {
	var id frontier.LeaseID
	binary.BigEndian.PutUint64(id[:], n)
	grant, err := s.Lease(ctx, frontier.LeaseRequest{IDs: []frontier.LeaseID{id}})
	if err != nil || len(grant.Leases) == 0 {
		return err
	}
	output := s.output.(*lines)
	var done []frontier.Completion
	for _, item := range grant.Leases[0].Items[:1] {
		done = append(done, frontier.Completion{Item: item.Fingerprint, Outcome: frontier.OK,
			Record: func(frontier.LinkCounts) error { return output.write(item.Fingerprint, item.Round) }})
	}
	return s.Complete(ctx, id, done, frontier.HostUpdate{End: true})
}

// verifySmallCrawl opens the crawl again and checks it.
func verifySmallCrawl(t *testing.T, when string, disk vfs.FS, added map[string]bool) {
	t.Helper()
	s, err := Open(smallConfig(disk))
	if err != nil {
		t.Errorf("%s: open again: %v", when, err)
		return
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", when, err)
		}
	}()
	for _, fault := range checkTables(s) {
		t.Errorf("%s: %s", when, fault)
	}
	stats, err := s.Stats(t.Context())
	if err != nil || stats.Balance() != nil {
		t.Errorf("%s: Stats: error %v, balance %v", when, err, stats.Balance())
	}
	for url := range added {
		host, _, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
		if status, err := s.Lookup(t.Context(), host, url); err != nil || status.State == frontier.Unknown {
			t.Errorf("%s: %s was answered added, but its state is %q, %v", when, url, status.State, err)
		}
	}
	records, err := readLines(disk, "crawl", s.meta.Position)
	if err != nil || uint64(len(records)) != stats.Records {
		t.Errorf("%s: %d records in the files, Stats says %d, %v", when, len(records), stats.Records, err)
	}
}

// TestDirectoryRemoved removes the directory of a running store. An open file can still
// be written to, so the store might not notice at once. It must not hang, and the rest
// of the directory must not open as a crawl.
func TestDirectoryRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "crawl")
	cfg := Config{Dir: dir, CheckpointAdds: 6, Filter: membits.Config{Capacity: 1000}}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(t.Context(), smallItems("a.test", 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, added := s.Add(t.Context(), smallItems("a.test", 1)) // the checkpoint that is due cannot be written
	if err := errors.Join(added, s.Close()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("after the directory was removed: Add and Close = %v, want ErrNotExist and the directory's name", err)
	}
	if stored, err := StoredSettings(nil, dir); err != nil || stored != nil {
		t.Errorf("StoredSettings of a removed directory = %v, %v, want none", stored, err)
	}
}

// TestNothingIsWrittenAfterAFailure: after a failure, the guard lets no write begin,
// because the directory might belong to another Store by then.
func TestNothingIsWrittenAfterAFailure(t *testing.T) {
	t.Parallel()
	g := newGuard()
	g.fail(errKilled)
	begun, written := make(chan struct{}), make(chan struct{})
	go func() { // this goroutine blocks for ever
		close(begun)
		g.write("write", "file", func() error { close(written); return nil })
	}()
	<-begun
	for range 1000 {
		runtime.Gosched()
	}
	select {
	case <-written:
		t.Error("a write began after the failure of another")
	default:
	}
}

// TestFailureWaitsForWrites: when callers learn of a failure, no write is in progress.
func TestFailureWaitsForWrites(t *testing.T) {
	t.Parallel()
	g := newGuard()
	begun, finish := make(chan struct{}), make(chan struct{})
	var finished atomic.Bool
	go g.write("write", "file", func() error {
		close(begun)
		<-finish
		finished.Store(true)
		return nil
	})
	<-begun
	go g.fail(errKilled)
	for range 1000 {
		runtime.Gosched()
	}
	select {
	case <-g.failed:
		t.Error("the guard failed while a write was in progress")
	default:
	}
	close(finish)
	<-g.failed
	if !finished.Load() {
		t.Error("the guard failed before the write in progress had ended")
	}
}
