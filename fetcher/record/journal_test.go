package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/groupcommit"
)

// leased returns the n-th record of a test, written by a worker under a lease.
func leased(n int, lease byte) *record.Record {
	r := page(n)
	r.Item[0], r.Item[1], r.Item[15] = byte(n), byte(n>>8), 7
	r.Lease[0] = lease
	r.Fields = json.RawMessage(`{"round":7,"fetched_at":"x","fingerprint":"x","lease":["x"],"void":true}`)
	return r
}

// TestJournalLines: a line has the item and the lease of its record. A void line has the item,
// the round and the lease of the record that it cancels.
func TestJournalLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	journal := must(record.OpenJournal(record.Config{Dir: dir}))
	r := leased(1, 0xab)
	r.Round = 3
	if err := errors.Join(journal.Append(r), journal.Void(r), journal.Close()); err != nil {
		t.Fatal(err)
	}
	const key = `"fingerprint":"01000000000000000000000000000007","lease":"ab000000000000000000000000000000"}`
	lines := strings.Split(string(must(os.ReadFile(filepath.Join(dir, "pages.jsonl")))), "\n")
	r.Item = bloomstore.Fingerprint{}
	plain := strings.TrimSuffix(string(must(r.AppendLine(nil))), "}\n")
	if want := []string{plain + "," + key, `{"void":true,"round":3,` + key, ""}; !slices.Equal(lines, want) {
		t.Errorf("lines\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// TestJournalIsOneProcess: an open journal is locked for other processes. A closed one is
// not.
func TestJournalIsOneProcess(t *testing.T) {
	t.Parallel()
	cfg := record.Config{Dir: t.TempDir()}
	journal := must(record.OpenJournal(cfg))
	if _, err := record.OpenJournal(cfg); !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("OpenJournal of an open journal: %v, want ErrLocked", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(cfg.Dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := record.OpenJournal(record.Config{Dir: link}); !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("OpenJournal of an open journal by a symbolic link: %v, want ErrLocked", err)
	}
	for range 2 {
		if err := journal.Close(); err != nil {
			t.Fatal(err)
		}
		journal = must(record.OpenJournal(cfg))
	}
	_ = journal.Close()
}

// TestJournalDirectorySurvives: a synced record survives a power loss, even if the directory
// of the journal and its parents were new.
func TestJournalDirectorySurvives(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	journal := must(record.OpenJournal(record.Config{Dir: "/x.crawl/host-1", FS: disk}))
	if err := journal.Append(leased(1, 1)); err != nil {
		t.Fatal(err)
	}
	must(journal.Sync())
	after := disk.CrashClone(vfs.CrashCloneCfg{})
	if _, err := after.Stat("/x.crawl/host-1/pages.jsonl"); err != nil {
		t.Errorf("after Sync and a power loss: %v", err)
	}
}

// TestJournalAnsweredIsSynced: a power loss does not remove the lines before the position that
// Answered returns, even if a process was killed between writing and syncing the lines.
func TestJournalAnsweredIsSynced(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	cfg := record.Config{Dir: "/w", FS: disk}
	journal := must(record.OpenJournal(cfg))
	if err := journal.Append(leased(1, 1)); err != nil {
		t.Fatal(err)
	}
	must(journal.Sync())
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	file := must(disk.OpenReadWrite("/w/pages.jsonl", vfs.WriteCategoryUnspecified))
	line := make([]byte, must(file.Stat()).Size())
	must(file.ReadAt(line, 0))
	must(file.WriteAt(line, int64(len(line))))
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	answered := record.Pages.EndOf(must(must(record.OpenJournal(cfg)).Answered())).Offset
	after := disk.CrashClone(vfs.CrashCloneCfg{})
	if size := must(after.Stat("/w/pages.jsonl")).Size(); answered != 2*int64(len(line)) || size != answered {
		t.Errorf("after a power loss the file has %d bytes; Answered was %d; want %d for both", size, answered, 2*len(line))
	}
}

// noLocks is a file system without locks, such as NFS without a lock manager.
type noLocks struct{ vfs.FS }

func (noLocks) Lock(string) (io.Closer, error) { return nil, syscall.ENOLCK }

// TestJournalLockFails: OpenJournal returns ErrLocked only if another caller has the lock,
// because after ErrLocked a worker tries the next directory.
func TestJournalLockFails(t *testing.T) {
	t.Parallel()
	_, err := record.OpenJournal(record.Config{Dir: "w", FS: noLocks{vfs.NewMem()}})
	if !errors.Is(err, syscall.ENOLCK) || errors.Is(err, frontier.ErrLocked) {
		t.Errorf("OpenJournal on a file system without locks: %v, want ENOLCK and not ErrLocked", err)
	}
}

// TestJournalGroups: many callers append and sync records in groups, across
// rotations, and no line is lost.
func TestJournalGroups(t *testing.T) {
	t.Parallel()
	const workers, each = 16, 50
	disk := vfs.NewMem()
	journal := must(record.OpenJournal(record.Config{Dir: dir, FS: disk, RotateBytes: 2000, Compress: true}))
	var all sync.WaitGroup
	queue := groupcommit.New(groupcommit.Config[*record.Record]{
		Go: func(run func(context.Context)) error {
			all.Go(func() { run(context.Background()) })
			return nil
		},
		Commit: func(_ context.Context, group []*record.Record) {
			for _, r := range group {
				if err := journal.Append(r); err != nil {
					t.Error(err)
				}
			}
			if _, err := journal.Sync(); err != nil {
				t.Error(err)
			}
		},
	})
	for w := range workers {
		all.Go(func() {
			for i := range each {
				if err := queue.Add(leased(w*each+i, byte(w)), 1).Wait(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	urls := contents(t, disk)
	slices.Sort(urls)
	if n := len(slices.Compact(urls)); n != workers*each {
		t.Errorf("%d different records, want %d", n, workers*each)
	}
}

// TestJournalFails: after an error of the disk no Sync succeeds any more.
func TestJournalFails(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	faulty := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWriteAt && broken.Load() {
			return errorfs.ErrInjected
		}
		return nil
	}))
	journal := must(record.OpenJournal(record.Config{Dir: dir, FS: faulty}))
	for n, fail := range []bool{false, true, false, false} {
		broken.Store(fail)
		_ = journal.Append(leased(n, 1))
		if _, err := journal.Sync(); (err != nil) != (n > 0) {
			t.Errorf("Sync number %d, counted from 0, returned %v, want an error from every Sync after number 0", n, err)
		}
	}
	if journal.Close() == nil {
		t.Error("Close returned no error after a failed write")
	}
}

// TestJournalCrashAtEachOperation is like TestCrashAtEachOperation, but without commits.
// After a crash the files contain all synced lines, in their order, and only whole lines.
// Then the journal continues.
func TestJournalCrashAtEachOperation(t *testing.T) {
	t.Parallel()
	rng, step := dice(t), int64(1)
	if testing.Short() {
		step = 5
	}
	for _, compress := range []bool{false, true} {
		for from := int64(1); from < 70; from += step {
			crashJournal(t, rng, compress, from)
		}
	}
}

func crashJournal(t *testing.T, rng *rand.Rand, compress bool, from int64) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	next, synced := 0, []string(nil)
	for life := range 4 {
		var writes atomic.Int64
		dead := from
		if life > 0 {
			dead = 1 + rng.Int64N(50)
		}
		faulty := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && writes.Add(1) >= dead || writes.Load() >= dead {
				return errorfs.ErrInjected
			}
			return nil
		}))
		journal, err := record.OpenJournal(record.Config{Dir: dir, FS: faulty, RotateBytes: 1500, Compress: compress})
		if err == nil {
			for range 1 + rng.IntN(10) {
				var group []string
				for range 1 + rng.IntN(4) {
					r := leased(next, byte(life))
					next++
					_ = journal.Append(r)
					group = append(group, r.URL)
				}
				if _, err = journal.Sync(); err != nil {
					break
				}
				synced = append(synced, group...)
			}
			_ = journal.Close()
		}
		disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50 * rng.IntN(3), RNG: rand.New(rand.NewPCG(rng.Uint64(), 0))})
		if err == nil {
			continue
		}
		journal, err = record.OpenJournal(record.Config{Dir: dir, FS: disk, RotateBytes: 1500, Compress: compress})
		if err != nil {
			t.Fatalf("crash %d, life %d: %v", from, life, err)
		}
		if err := journal.Close(); err != nil {
			t.Fatal(err)
		}
		if missing := missingFrom(contents(t, disk), synced); missing != "" {
			t.Fatalf("crash %d, life %d: %s was synced and is gone", from, life, missing)
		}
	}
}

// missingFrom returns the first string of want that is missing from got, or "". The
// strings must be in the same order in both.
func missingFrom(got, want []string) string {
	for _, url := range want {
		i := slices.Index(got, url)
		if i < 0 {
			return url
		}
		got = got[i+1:]
	}
	return ""
}

// TestJournalCutsHalfALine opens journals whose last line was cut at various
// lengths. The incomplete line is removed.
func TestJournalCutsHalfALine(t *testing.T) {
	t.Parallel()
	whole := "{\"a\":1}\n{\"b\":2}\n"
	torn := `{"c":` + strings.Repeat("x", 600_000)
	for _, length := range []int{0, 1, 4, 200_000, 262_143, 262_144, 524_288, 600_000} {
		cfg := record.Config{Dir: t.TempDir()}
		name := filepath.Join(cfg.Dir, "pages.jsonl")
		for _, before := range []string{"", whole} {
			if err := os.WriteFile(name, []byte(before+torn[:length]), 0o644); err != nil {
				t.Fatal(err)
			}
			journal := must(record.OpenJournal(cfg))
			if err := journal.Close(); err != nil {
				t.Fatal(err)
			}
			if got := string(must(os.ReadFile(name))); got != before {
				t.Errorf("half a line of %d bytes behind %q: %d bytes are left, want %d",
					length, before, len(got), len(before))
			}
		}
	}
}

// archive is an output. Its method Sync calls the function in the field synced.
type archive struct {
	synced func()
	length int64
}

func (a *archive) Sync() (frontier.Position, error) {
	a.synced()
	a.length++
	return frontier.Position{{File: "warc/x", Length: a.length}}, nil
}

// TestArchiveIsSyncedFirst: the archive is synced before the records that refer to it, and
// the position that Sync returns has the files of both outputs. If the records are opened
// without an archive, the archive's entry in the position does not change.
func TestArchiveIsSyncedFirst(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	name := disk.PathJoin(dir, "pages.jsonl")
	kept := &archive{synced: func() {
		if info, err := disk.Stat(name); err != nil || info.Size() > 0 {
			t.Errorf("when the archive is synced, pages.jsonl is missing or not empty: %v", err)
		}
	}}
	files := must(record.Open(record.Config{Dir: dir, FS: disk, OpenArchive: func(string) (frontier.Output, error) { return kept, nil }}, nil))
	if err := files.Append(page(1)); err != nil {
		t.Fatal(err)
	}
	position := must(files.Sync())
	want := frontier.FileLength{File: "warc/x", Length: 1}
	if len(position) != 2 || position[1] != want {
		t.Fatalf("position %v, want %v in it", position, want)
	}
	_ = files.Close()
	files = must(record.Open(record.Config{Dir: dir, FS: disk}, position))
	if again := must(files.Sync()); fmt.Sprint(again) != fmt.Sprint(position) {
		t.Errorf("without the archive: position %v, want %v as before", again, position)
	}
	_ = files.Close()
}
