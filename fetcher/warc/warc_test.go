package warc_test

import (
	"bytes"
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
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestRotationOfFiles: each file begins with its own warcinfo, and serials increase. A
// Location is the place of the answer. A file is not much longer than configured.
func TestRotationOfFiles(t *testing.T) {
	disk := vfs.NewMem()
	w := must(warc.Open(warc.Config{Dir: dir, FS: disk, Prefix: "a-b", RotateBytes: 5000}, nil))
	if position := must(w.Sync()); position != nil {
		t.Errorf("Sync before any Append: position %v, want nil", position)
	}
	locations := make(map[warc.Location]int)
	for n := range 60 {
		locations[must(add(w, n))] = n
		must(w.Sync())
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file, files := "", 0
	for i, k := range read(t, disk, "a-b-") {
		if begins := k.location.File != file; begins != (k.kind() == "warcinfo") {
			t.Errorf("record %d, at %+v, is a %s; want a warcinfo exactly at the start of each file",
				i, k.location, k.kind())
		} else if begins {
			file, files = k.location.File, files+1
			if want := fmt.Sprintf("-%05d.warc.gz", files); !strings.HasSuffix(file, want) {
				t.Errorf("file %d is %s, want a name that ends with %s", files, file, want)
			}
		}
		if k.location.Offset > 10_000 {
			t.Errorf("a record is at %+v, want an offset of at most 10,000", k.location)
		}
		if k.kind() != "response" {
			continue
		}
		n, ok := locations[k.location]
		if delete(locations, k.location); !ok || k.field["WARC-Target-URI"] != url(n) || !bytes.Equal(k.block, wire(n).Response) {
			t.Errorf("the record at %+v is of %s, want page %d unchanged", k.location, k.field["WARC-Target-URI"], n)
		}
	}
	if len(locations) > 0 || files < 3 {
		t.Errorf("%d answers are missing, want 0; %d files, want at least 3", len(locations), files)
	}
}

// TestLongRecords: records that are longer than the buffer do not change the order.
func TestLongRecords(t *testing.T) {
	disk := vfs.NewMem()
	w := must(warc.Open(warc.Config{Dir: dir, FS: disk}, nil))
	noise := rand.NewChaCha8([32]byte{1})
	var want [][]byte
	for _, size := range []int{100, 3 << 20, 200, 250 << 10, 1 << 10, 256 << 10, 10} {
		answer := wire(1)
		body := make([]byte, size)
		_, _ = noise.Read(body)
		answer.Response = append(answer.Response, body...)
		want = append(want, answer.Response)
		must(w.Append(must(warc.Pack(url(1), answer))))
	}
	must(w.Sync())
	_ = w.Close()
	var got [][]byte
	for _, k := range read(t, disk, "crawl-") {
		if k.kind() == "response" {
			got = append(got, k.block)
		}
	}
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%d answers came back, want the %d that were written, in their order", len(got), len(want))
	}
}

// TestAppendTwice: a second Append of the same answer returns the same location.
func TestAppendTwice(t *testing.T) {
	disk := vfs.NewMem()
	w := must(warc.Open(warc.Config{Dir: dir, FS: disk}, nil))
	p := must(warc.Pack(url(1), wire(1)))
	first := must(w.Append(p))
	must(add(w, 2))
	if again := must(w.Append(p)); again != first {
		t.Errorf("Append returned %+v, and for the same answer again %+v", first, again)
	}
	must(w.Sync())
	_ = w.Close()
	if there := answers(t, disk); len(there) != 2 || there[url(1)] != first {
		t.Errorf("answers %v, want 2, of them %s at %+v", there, url(1), first)
	}
}

// TestAppendersAtOnce: many callers pack and append at once, with syncs
// between.
func TestAppendersAtOnce(t *testing.T) {
	const workers, each = 8, 40
	disk := vfs.NewMem()
	w := must(warc.Open(warc.Config{Dir: dir, FS: disk, RotateBytes: 3000}, nil))
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := range each {
				if _, err := add(w, worker*each+i); err != nil {
					t.Error(err)
				}
				if _, err := w.Sync(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	_ = w.Close()
	if n := len(answers(t, disk)); n != workers*each {
		t.Errorf("%d different answers, want %d", n, workers*each)
	}
}

// answers returns the URLs of all answers, and fails the test if one is there twice.
func answers(t *testing.T, disk vfs.FS) map[string]warc.Location {
	t.Helper()
	urls := make(map[string]warc.Location)
	for _, k := range read(t, disk, "crawl-") {
		if k.kind() != "response" {
			continue
		}
		if _, twice := urls[k.field["WARC-Target-URI"]]; twice {
			t.Errorf("%s is there twice", k.field["WARC-Target-URI"])
		}
		urls[k.field["WARC-Target-URI"]] = k.location
	}
	return urls
}

// crawl is the output of a crawl. Like a worker, it appends an answer and then the record
// with its location.
type crawl struct {
	disk      *vfs.MemFS
	committed int // number of committed records
	position  frontier.Position
}

func (c *crawl) open(fs vfs.FS) (*warc.Writer, *record.Files, error) {
	w, err := warc.Open(warc.Config{Dir: dir, FS: fs, RotateBytes: 4000}, c.position)
	if err != nil {
		return nil, nil, err
	}
	files, err := record.Open(record.Config{Dir: dir, FS: fs, RotateBytes: 900, OpenArchive: func(string) (frontier.Output, error) { return w, nil }}, c.position)
	if err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	return w, files, nil
}

// write appends batches and commits each, until one fails. If lastLost is true,
// the process dies between the last batch's Sync and its commit.
func (c *crawl) write(w *warc.Writer, files *record.Files, batches int, rng *rand.Rand, lastLost bool) {
	next := c.committed
	for batch := range batches {
		for range 1 + rng.IntN(5) {
			place, err := add(w, next)
			if err != nil || files.Append(&record.Record{URL: url(next), WARC: place.File, WARCOffset: place.Offset}) != nil {
				return
			}
			next++
		}
		position, err := files.Sync()
		if err != nil || lastLost && batch == batches-1 {
			return
		}
		c.committed, c.position = next, position
	}
}

// holds checks that both outputs, opened at the committed position, have exactly the
// committed records, and that the records refer to their answers.
func (c *crawl) holds(t *testing.T) {
	t.Helper()
	w, files, err := c.open(c.disk)
	if err != nil {
		t.Fatalf("open at %v: %v", c.position, err)
	}
	if err := errors.Join(files.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	locations := answers(t, c.disk)
	if len(locations) != c.committed {
		t.Fatalf("%d answers in the files, %d were committed at %v", len(locations), c.committed, c.position)
	}
	n := 0
	for r := range recordsOf(t, c.disk) {
		if locations[r.URL] != (warc.Location{File: r.WARC, Offset: r.WARCOffset}) || r.URL != url(n) {
			t.Fatalf("record %d is of %s and refers to %s, byte %d; its answer is at %+v",
				n, r.URL, r.WARC, r.WARCOffset, locations[r.URL])
		}
		n++
	}
	if n != c.committed {
		t.Fatalf("%d records in the files, %d were committed", n, c.committed)
	}
}

// recordsOf returns the records of pages.jsonl and of the files before it.
func recordsOf(t *testing.T, disk vfs.FS) func(func(record.Record) bool) {
	t.Helper()
	local := t.TempDir() // a Reader reads real files
	for _, name := range must(disk.List(dir)) {
		if !strings.HasPrefix(name, "pages") || name == "pages.lock" {
			continue
		}
		file := must(disk.Open(disk.PathJoin(dir, name)))
		text := must(io.ReadAll(file))
		_ = file.Close()
		if err := os.WriteFile(filepath.Join(local, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return func(yield func(record.Record) bool) {
		for r, err := range (record.Reader{Dir: local}).All() {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(r) {
				return
			}
		}
	}
}

// dyingAt returns a file system on which nothing works from the n-th write on.
func dyingAt(disk vfs.FS, n int64) vfs.FS {
	var writes atomic.Int64
	return errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && writes.Add(1) >= n || writes.Load() >= n {
			return errorfs.ErrInjected
		}
		return nil
	}))
}

func afterCrash(disk *vfs.MemFS, rng *rand.Rand) *vfs.MemFS {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50 * rng.IntN(3), RNG: rand.New(rand.NewPCG(rng.Uint64(), 0))})
}

// step returns 1. With -short it returns its argument.
func step(short int64) int64 {
	if testing.Short() {
		return short
	}
	return 1
}

// TestCrashAtEachOperation makes one crawl for each number of a write, and lets it crash three
// times. Before the first crash, the write with this number and all later writes fail. Before
// each later crash, all writes from a random one on fail. After each crash, the outputs must
// have exactly the committed records.
func TestCrashAtEachOperation(t *testing.T) {
	rng := dice(t)
	for from := int64(1); from < 70; from += step(5) {
		c := &crawl{disk: vfs.NewCrashableMem()}
		for life := range 3 {
			dead := from
			if life > 0 {
				dead = 1 + rng.Int64N(60)
			}
			w, files, err := c.open(dyingAt(c.disk, dead))
			if err == nil {
				c.write(w, files, 1+rng.IntN(10), rng, rng.IntN(2) == 0)
				_ = errors.Join(files.Close(), w.Close())
			} else if !errors.Is(err, errorfs.ErrInjected) {
				t.Fatalf("crash %d, life %d: %v", from, life, err)
			}
			c.disk = afterCrash(c.disk, rng)
			c.holds(t)
		}
	}
}

// TestCrashOfOneOfMany is like TestCrashAtEachOperation, for a worker whose store
// commits no positions. All synced records are in the files, and each is whole.
func TestCrashOfOneOfMany(t *testing.T) {
	rng := dice(t)
	for from := int64(1); from < 70; from += step(5) {
		disk := vfs.NewCrashableMem()
		next, synced := 0, make(map[string]warc.Location)
		for range 3 {
			w, err := warc.OpenWhole(warc.Config{Dir: dir, FS: dyingAt(disk, 1+rng.Int64N(from)), RotateBytes: 4000})
			for range 1 + rng.IntN(10) {
				if err != nil {
					break
				}
				group := make(map[string]warc.Location)
				for range 1 + rng.IntN(5) {
					group[url(next)], _ = add(w, next) // Sync returns the same error
					next++
				}
				if _, err = w.Sync(); err == nil {
					for url, place := range group {
						synced[url] = place
					}
				}
			}
			if w != nil {
				_ = w.Close()
			}
			disk = afterCrash(disk, rng)
			w, err = warc.OpenWhole(warc.Config{Dir: dir, FS: disk})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			there := answers(t, disk)
			for url, place := range synced {
				if there[url] != place {
					t.Fatalf("crash %d: %s was synced at %+v, is at %+v", from, url, place, there[url])
				}
			}
		}
	}
}

// TestCutAtEachByte: after a file was cut at any byte, its whole records are left, and new
// records follow them.
func TestCutAtEachByte(t *testing.T) {
	disk := vfs.NewMem()
	w := must(warc.OpenWhole(warc.Config{Dir: dir, FS: disk}))
	place := must(add(w, 1))
	must(add(w, 2))
	must(w.Sync())
	_ = w.Close()
	name := disk.PathJoin(dir, place.File)
	text := must(io.ReadAll(must(disk.Open(name))))
	whole := records(t, filepath.Base(name), text)
	for length := 0; length < len(text); length += int(step(11)) {
		disk := vfs.NewMem()
		if err := disk.MkdirAll(disk.PathJoin(dir, warc.Folder), 0o755); err != nil {
			t.Fatal(err)
		}
		file := must(disk.Create(name, vfs.WriteCategoryUnspecified))
		must(file.Write(bytes.Clone(text[:length]))) // under the race detector, Write overwrites its argument
		_ = file.Close()
		w := must(warc.OpenWhole(warc.Config{Dir: dir, FS: disk}))
		must(add(w, 3))
		must(w.Sync())
		_ = w.Close()
		left := 1 // the first record is written again if it is not whole
		for i := 2; i < len(whole) && whole[i].location.Offset <= int64(length); i++ {
			left = i
		}
		all := read(t, disk, "crawl-")
		if len(all) != left+2 || all[0].kind() != "warcinfo" || all[left].field["WARC-Target-URI"] != url(3) {
			t.Fatalf("cut to %d bytes, after one more answer: %d records, want %d", length, len(all), left+2)
		}
	}
}

// TestOpenRefuses: Open returns an error that names missing or unexpected files, and changes
// nothing.
func TestOpenRefuses(t *testing.T) {
	at := func(file string, length int64) frontier.Position {
		return frontier.Position{{File: "pages.jsonl", Length: 7}, {File: file, Length: length}}
	}
	const one, two, three = "crawl-20260102030405-00001.warc.gz", "crawl-20260102030405-00002.warc.gz", "crawl-20260102030405-00003.warc.gz"
	for name, c := range map[string]struct {
		files    []string
		prefix   string
		position frontier.Position
		want     string
	}{
		"bytes are missing":       {[]string{one}, "", at("warc/"+one, 4), "its end is missing"},
		"the file is missing":     {nil, "", at("warc/"+one, 4), "no such file"},
		"files of another output": {[]string{one, two}, "", nil, two + " is there, but only 0 files were committed"},
		"two later files":         {[]string{one, two, three}, "", at("warc/"+one, 3), three + " is there, but only 1 files were committed"},
		"a name without a prefix": {[]string{"x.warc.gz"}, "", at("warc/x.warc.gz", 3), "does not have the prefix"},
		"another prefix":          {[]string{one}, "other", at("warc/"+one, 3), `does not have the prefix "other"`},
		"a prefix with a slash":   {nil, "a/b", nil, "cannot be part of a file's name"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.Mkdir(filepath.Join(root, warc.Folder), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range c.files {
				if err := os.WriteFile(filepath.Join(root, warc.Folder, name), []byte("abc"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := warc.Open(warc.Config{Dir: root, Prefix: c.prefix}, c.position); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			for _, name := range c.files {
				if text, err := os.ReadFile(filepath.Join(root, warc.Folder, name)); string(text) != "abc" {
					t.Errorf("%s has %q now (%v), want it unchanged", name, text, err)
				}
			}
		})
	}
}

// TestOpenLeavesOthers: files with another prefix, and files that are not WARC files, are
// not changed.
func TestOpenLeavesOthers(t *testing.T) {
	root := t.TempDir()
	others := []string{"x-20260102030405-00001.warc.gz", "crawl-00001.warc.gz", "crawl-20260102030405-1x.warc.gz", "notes"}
	for _, name := range others {
		_ = os.Mkdir(filepath.Join(root, warc.Folder), 0o755)
		if err := os.WriteFile(filepath.Join(root, warc.Folder, name), []byte("abc"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := must(warc.Open(warc.Config{Dir: root}, nil))
	must(add(w, 1))
	must(w.Sync())
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range others {
		if text, err := os.ReadFile(filepath.Join(root, warc.Folder, name)); string(text) != "abc" {
			t.Errorf("%s has %q now (%v), want it unchanged", name, text, err)
		}
	}
}

// TestErrorsStay: after an error of the disk or after Close, every call fails. Only one
// process at a time can open a worker's files.
func TestErrorsStay(t *testing.T) {
	var broken atomic.Bool
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWriteAt && broken.Load() {
			return errorfs.ErrInjected
		}
		return nil
	}))
	cfg := warc.Config{Dir: dir, FS: disk}
	w := must(warc.OpenWhole(cfg))
	if _, err := warc.OpenWhole(cfg); !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("a second process: %v, want ErrLocked", err)
	}
	must(add(w, 1))
	broken.Store(true)
	if _, err := w.Sync(); !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("Sync on a broken disk: %v, want ErrInjected", err)
	}
	broken.Store(false)
	if _, err := w.Sync(); !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("the next Sync: %v, want ErrInjected", err)
	}
	if _, err := add(w, 2); !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("Append after it: %v, want ErrInjected", err)
	}
	_ = w.Close()
	w = must(warc.OpenWhole(cfg))
	_ = w.Close()
	if _, err := add(w, 2); !errors.Is(err, frontier.ErrClosed) {
		t.Errorf("Append after Close: %v, want ErrClosed", err)
	}
}
