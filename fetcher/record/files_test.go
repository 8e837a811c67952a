package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

var _ = flag.Uint64("seed", 0, "replay random tests with this seed") // read by bloomtest.Seed

func dice(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(bloomtest.Seed(t), 3))
}

const dir = "out"

// page returns the n-th record of a test.
func page(n int) *record.Record {
	return &record.Record{URL: fmt.Sprintf("http://a.test/%06d", n), Outcome: "ok", FetchedAt: time.Unix(int64(n), 0).UTC(), Title: strings.Repeat("x", n%50)}
}

// contents returns the URLs of all lines in their order, in packed and plain files.
func contents(t *testing.T, filesystem vfs.FS) (lines []string) {
	t.Helper()
	names, err := filesystem.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "pages.lock" || name == "pages.answered" })
	slices.Sort(names) // "pages-…" comes before "pages.jsonl"
	for i, name := range names {
		if strings.HasSuffix(name, ".new") {
			t.Errorf("%s is still there", name)
		}
		if i > 0 && strings.TrimSuffix(name, ".zst") == names[i-1] {
			t.Errorf("%s is there packed and plain", name)
		}
		for line := range bytes.Lines(unpacked(t, filesystem, name)) {
			var r record.Record
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatalf("%s has the line %q: %v", name, line, err)
			}
			lines = append(lines, r.URL)
		}
	}
	return lines
}

func unpacked(t *testing.T, filesystem vfs.FS, name string) []byte {
	t.Helper()
	file, err := filesystem.Open(filesystem.PathJoin(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var in io.Reader = file
	if strings.HasSuffix(name, ".zst") {
		z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		in = z
	}
	all, err := io.ReadAll(in)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return all
}

// committed is the state of a store: the number of records in the output, and
// where the output ends.
type committed struct {
	records  int
	position frontier.Position
}

// write appends batches of records and commits each, until one fails. If lastLost
// is true, the process dies after the last batch's Sync and before its commit.
func (c *committed) write(files *record.Files, batches []int, lastLost bool) {
	next := c.records
	for i, n := range batches {
		for range n {
			if files.Append(page(next)) != nil {
				return
			}
			next++
		}
		position, err := files.Sync()
		if err != nil || lastLost && i == len(batches)-1 {
			return
		}
		*c = committed{next, position}
	}
}

// holds fails the test unless the files, opened at the committed position, have
// exactly the committed records.
func (c *committed) holds(t *testing.T, cfg record.Config) *record.Files {
	t.Helper()
	files, err := record.Open(cfg, c.position)
	if err != nil {
		t.Fatalf("open at %v: %v", c.position, err)
	}
	if err := files.Close(); err != nil { // this waits for compressions
		t.Fatal(err)
	}
	lines := contents(t, cfg.FS)
	if len(lines) != c.records {
		t.Fatalf("%d records in the files, %d were committed at %v", len(lines), c.records, c.position)
	}
	for i, url := range lines {
		if url != page(i).URL {
			t.Fatalf("record %d is %s, want %s", i, url, page(i).URL)
		}
	}
	files, err = record.Open(cfg, c.position)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestCrashAtEachOperation numbers the writes of a run, and calls the function crash for most
// of these numbers. In the first run, the write with the number and all later writes fail.
// Then the test simulates a crash, after which all, none or some of the unsynced writes are on
// disk. Three more runs follow with the files that are left, and fail from a random write on.
func TestCrashAtEachOperation(t *testing.T) {
	t.Parallel()
	rng := dice(t)
	step := 1
	if testing.Short() {
		step = 7
	}
	for _, compress := range []bool{false, true} {
		for _, unsynced := range []int{0, 50, 100} {
			t.Run(fmt.Sprintf("compress=%t/unsynced=%d", compress, unsynced), func(t *testing.T) {
				for from := 1; from < 90; from += step + from/30 {
					crash(t, rng, compress, unsynced, from)
				}
			})
		}
	}
}

func crash(t *testing.T, rng *rand.Rand, compress bool, unsynced, from int) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	var state committed
	for life := range 4 {
		var writes atomic.Int64
		dead := int64(from)
		if life > 0 {
			dead = 1 + rng.Int64N(40)
		}
		faulty := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && writes.Add(1) >= dead || writes.Load() >= dead {
				return errorfs.ErrInjected
			}
			return nil
		}))
		cfg := record.Config{Dir: dir, FS: faulty, RotateBytes: 900, Compress: compress}
		if files, err := record.Open(cfg, state.position); err == nil {
			batches := make([]int, 1+rng.IntN(12))
			for i := range batches {
				batches[i] = 1 + rng.IntN(4)
			}
			state.write(files, batches, rng.IntN(2) == 0)
			_ = files.Close()
		} else if !errors.Is(err, errorfs.ErrInjected) {
			t.Fatalf("crash %d, life %d: open at %v: %v", from, life, state.position, err)
		}
		image := vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(rng.Uint64(), 0))}
		disk = disk.CrashClone(image)
		cfg.FS = disk
		cfg.Compress = compress && rng.IntN(2) == 0
		if files := state.holds(t, cfg); rng.IntN(2) == 0 { // continue with the open files, or die again
			state.write(files, []int{2, 3}, false)
			_ = files.Close()
		}
	}
	state.holds(t, record.Config{Dir: dir, FS: disk, RotateBytes: 900, Compress: compress})
}

// TestUncommittedRotationTwice: several rotations in a row without a commit are each undone.
// The file that such a rotation closes is not packed.
func TestUncommittedRotationTwice(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	cfg := record.Config{Dir: dir, FS: disk, RotateBytes: 300, Compress: true}
	var state committed
	state.write(state.holds(t, cfg), []int{5}, false)
	for range 3 {
		state.write(state.holds(t, cfg), []int{3}, true) // rotates, syncs and dies
		cfg.FS = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
		disk = cfg.FS.(*vfs.MemFS)
	}
	files := state.holds(t, cfg)
	state.write(files, []int{3, 5, 1, 1}, false)
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	state.holds(t, cfg)
	if names, _ := disk.List(dir); len(names) < 3 {
		t.Errorf("files %v, want some packed ones", names)
	}
}

// TestRotationAndPacking runs on a real file system. A closed file gets the next number,
// and is packed when a position that contains it is committed.
func TestRotationAndPacking(t *testing.T) {
	t.Parallel()
	for _, compress := range []bool{false, true} {
		root := t.TempDir()
		cfg := record.Config{Dir: filepath.Join(root, dir), RotateBytes: 500, Compress: compress}
		files, err := record.Open(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		var state committed
		state.write(files, slices.Repeat([]int{4}, 10), false)
		if err := files.Close(); err != nil {
			t.Fatal(err)
		}
		names := list(t, cfg.Dir)
		if len(names) < 4 || names[len(names)-1] != "pages.jsonl" {
			t.Fatalf("files %v, want at least 4, the last of them pages.jsonl", names)
		}
		for i, name := range names[:len(names)-1] {
			want := fmt.Sprintf("pages-%06d.jsonl", i+1)
			// The last closed file may still be plain, because a closed file is packed at the
			// first call of Append or Sync after its commit.
			if compress && i < len(names)-2 {
				want += ".zst"
			}
			if strings.TrimSuffix(name, ".zst") != strings.TrimSuffix(want, ".zst") || compress && !strings.HasPrefix(name, want) {
				t.Errorf("file %d is %s, want %s", i, name, want)
			}
		}
		if err := os.WriteFile(filepath.Join(cfg.Dir, "pages.jsonl"), append(must(os.ReadFile(filepath.Join(cfg.Dir, "pages.jsonl"))), "half a li"...), 0o644); err != nil {
			t.Fatal(err)
		}
		// state.holds reads the folder "out", relative to the root of a file system.
		inRoot := cfg
		inRoot.FS = rooted{vfs.Default, root}
		inRoot.Dir = dir
		state.holds(t, inRoot)
		if compress {
			for _, name := range list(t, cfg.Dir) {
				if name != "pages.jsonl" && !strings.HasSuffix(name, ".zst") {
					t.Errorf("%s is not packed after it was opened again", name)
				}
			}
		}
		files, err = record.Open(cfg, state.position)
		if err != nil {
			t.Fatal(err)
		}
		_ = files.Close()
	}
}

// rooted is a file system below root.
type rooted struct {
	vfs.FS
	root string
}

func (r rooted) PathJoin(parts ...string) string {
	if filepath.IsAbs(parts[0]) {
		return filepath.Join(parts...)
	}
	return filepath.Join(append([]string{r.root}, parts...)...)
}
func (r rooted) List(name string) ([]string, error) { return r.FS.List(r.PathJoin(name)) }
func (r rooted) OpenDir(name string) (vfs.File, error) {
	return r.FS.OpenDir(r.PathJoin(name))
}
func (r rooted) MkdirAll(name string, mode os.FileMode) error {
	return r.FS.MkdirAll(r.PathJoin(name), mode)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestOpenRefuses: Open returns an error that names missing or unexpected files, and changes
// nothing.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files    map[string]string
		position frontier.Position
		want     string
	}{
		"bytes are missing": {map[string]string{"pages.jsonl": "{}\n"}, frontier.Position{{File: "pages.jsonl", Length: 4}}, "its end is missing"},
		"file is missing":   {nil, frontier.Position{{File: "pages.jsonl", Length: 4}}, "its end is missing"},
		"closed files of another output": {map[string]string{"pages-000001.jsonl": "{}\n", "pages.jsonl": "{}\n"}, nil,
			"pages-000001.jsonl is there, but only 0 closed files were committed"},
		"later closed file": {map[string]string{"pages-000003.jsonl": "{}\n", "pages.jsonl": "{}\n"},
			frontier.Position{{File: "pages.jsonl", Length: 3}, {File: "pages-000001.jsonl"}}, "another output"},
		"packed file that was not committed": {map[string]string{"pages-000002.jsonl.zst": "", "pages.jsonl": "{}\n"},
			frontier.Position{{File: "pages.jsonl", Length: 3}, {File: "pages-000001.jsonl"}}, "another output"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := record.Config{Dir: t.TempDir()}
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(cfg.Dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := record.Open(cfg, c.position); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			for name, text := range c.files {
				if got := string(must(os.ReadFile(filepath.Join(cfg.Dir, name)))); got != text {
					t.Errorf("%s has %q now, had %q", name, got, text)
				}
			}
		})
	}
}

// TestDiskErrors: an error of the disk is reported, even one in the background, and committed
// records are still there.
func TestDiskErrors(t *testing.T) {
	t.Parallel()
	rng := dice(t)
	for from := range int64(60) {
		disk := vfs.NewCrashableMem()
		var writes atomic.Int64
		broken := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && writes.Add(1) == 10+from { // once
				return errorfs.ErrInjected
			}
			return nil
		}))
		cfg := record.Config{Dir: dir, FS: broken, RotateBytes: 300, Compress: true}
		var state committed
		files, err := record.Open(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		batches := slices.Repeat([]int{1 + rng.IntN(3)}, 12)
		state.write(files, batches, false)
		err = files.Close()
		if told := err != nil || state.records < 12*batches[0]; writes.Load() >= 10+from && !told {
			t.Errorf("write %d failed, but no call returned an error", 10+from)
		}
		cfg.FS = disk
		state.holds(t, cfg)
	}
}

// TestStreamWritesWholeLines: after Sync whole lines are in the stream, in
// order. A stream has no position.
func TestStreamWritesWholeLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	stream := record.NewStream(&out)
	for n := range 3 {
		if err := stream.Append(page(n)); err != nil {
			t.Fatal(err)
		}
	}
	if position, err := stream.Sync(); err != nil || position != nil {
		t.Errorf("Sync returned %v, %v, want nil, nil", position, err)
	}
	if n := strings.Count(out.String(), "\n"); n != 3 || !strings.HasPrefix(out.String(), `{"url":"http://a.test/000000"`) {
		t.Errorf("the stream has %q, want 3 lines", out.String())
	}
	full := record.NewStream(fullWriter{})
	_ = full.Append(page(0))
	if _, err := full.Sync(); !errors.Is(err, errFull) {
		t.Errorf("Sync returned %v, want the writer's error", err)
	}
}

var errFull = errors.New("no space left")

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errFull }

// TestTeeWritesToBoth: both outputs get each record, and the position is that
// of the files.
func TestTeeWritesToBoth(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cfg := record.Config{Dir: dir, FS: vfs.NewCrashableMem()}
	files, err := record.Open(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	tee := record.Tee{Files: files, Stream: record.NewStream(&out)}
	for n := range 3 {
		if err := tee.Append(page(n)); err != nil {
			t.Fatal(err)
		}
	}
	position, err := tee.Sync()
	if err != nil || len(position) != 1 || position[0].Length != int64(out.Len()) {
		t.Errorf("Sync returned %v, %v, want one file of %d bytes, as in the stream", position, err, out.Len())
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if got := unpacked(t, cfg.FS, "pages.jsonl"); !bytes.Equal(got, out.Bytes()) {
		t.Errorf("the file has %q, the stream %q", got, out.Bytes())
	}
}

// TestRecordLine: a record is one line, even if its fields contain line breaks, quotes or
// NUL, and is equal after it is read back.
func TestRecordLine(t *testing.T) {
	t.Parallel()
	r := record.Record{URL: "http://a.test/?a=1&b=<2>", Title: "two\nlines\u2028 \"quoted\"", Error: "x\x00", FetchedAt: time.Unix(1, 5e6).UTC(), LinksFound: 3}
	line, err := r.AppendLine([]byte("before\n"))
	if err != nil || !bytes.HasPrefix(line, []byte("before\n")) || bytes.Count(line, []byte("\n")) != 2 {
		t.Fatalf("line %q, %v, want one line after the given bytes", line, err)
	}
	var back record.Record
	if err := json.Unmarshal(line[len("before\n"):], &back); err != nil || !cmp.Equal(back, r) {
		t.Errorf("the record reads back as %+v, %v, want %+v", back, err, r)
	}
}
