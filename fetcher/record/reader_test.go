package record

import (
	"bytes"
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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/bloomfrontier/crawler/frontier"
)

// sample returns the record of page n. referrer is the number of its referrer, or -1 for a
// seed.
func sample(n, referrer int) Record {
	r := Record{
		URL: fmt.Sprintf("http://h/%d?a=1&b=<%s>\\\"", n, strings.Repeat("é", n%7)), Host: "h", Outcome: "ok", Status: 200,
		ID: idOf(n), FetchedAt: time.Unix(int64(n), 0).UTC(), Title: `"id":"` + idOf(n+1) + `" "url":"http://h/"` + "\n\\",
		Fields: ownKeys,
	}
	if referrer >= 0 {
		r.ReferrerID = idOf(referrer)
	}
	return r
}

// ownKeys are fields of a page with the same names as keys of records.
var ownKeys = json.RawMessage(`{"id":"0123456789abcdef","referrer_id":"0123456789abcdef","url":"http://x/","round":7,"fetched_at":"x","fingerprint":"x","lease":"x"}`)

func idOf(n int) string { return fmt.Sprintf("%016x", uint64(n+1)*0x9e3779b97f4a7c15) }

func line(t testing.TB, r Record) []byte {
	t.Helper()
	b, err := r.AppendLine(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var packer, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))

func write(t testing.TB, dir, name string, text []byte) {
	t.Helper()
	if strings.HasSuffix(name, zstdSuffix) {
		text = packer.EncodeAll(text, nil)
	}
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// read returns the ids of all records.
func read(t testing.TB, r Reader) (all []string) {
	t.Helper()
	for record, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, record.ID)
	}
	return all
}

func ids(from, to int) (all []string) {
	for n := from; n < to; n++ {
		all = append(all, idOf(n))
	}
	return all
}

// threeFiles writes nine records: 0-2 packed, 3-5 closed, 6-8 active. The referrer of each
// is the record two before it.
func threeFiles(t testing.TB) (dir string, active []byte) {
	dir = t.TempDir()
	var text []byte
	for n := range 9 {
		text = append(text, line(t, sample(n, n-2))...)
		switch n {
		case 2:
			write(t, dir, Pages.closed(1)+zstdSuffix, text)
			text = nil
		case 5:
			write(t, dir, Pages.closed(2), text)
			text = nil
		}
	}
	write(t, dir, Pages.active(), text)
	return dir, text
}

func TestReaderOrder(t *testing.T) {
	t.Parallel()
	dir, active := threeFiles(t)
	if got, want := read(t, Reader{Dir: dir}), ids(0, 9); !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}
	// A packed file that still has its plain form beside it counts once.
	text := append(append(line(t, sample(0, -2)), line(t, sample(1, -1))...), line(t, sample(2, 0))...)
	write(t, dir, Pages.closed(1), text)
	write(t, dir, Pages.closed(1)+zstdSuffix+".new", []byte("half a frame"))
	if got, want := read(t, Reader{Dir: dir}), ids(0, 9); !slices.Equal(got, want) {
		t.Errorf("with both forms: records %v, want %v", got, want)
	}
	// Old files may be moved away, and the active one may be missing.
	for _, name := range []string{Pages.closed(1), Pages.closed(1) + zstdSuffix} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := read(t, Reader{Dir: dir}), ids(3, 9); !slices.Equal(got, want) {
		t.Errorf("without the first file: records %v, want %v", got, want)
	}
	if err := os.Rename(filepath.Join(dir, Pages.active()), filepath.Join(dir, Pages.closed(3))); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, Reader{Dir: dir}), ids(3, 9); !slices.Equal(got, want) {
		t.Errorf("while rotating: records %v, want %v", got, want)
	}
	// A position from before the rotation ends at the same line.
	end := frontier.Position{{File: Pages.active(), Length: int64(bytes.IndexByte(active, '\n') + 1)}, {File: Pages.closed(2)}}
	if got, want := read(t, Reader{Dir: dir, End: end}), ids(3, 7); !slices.Equal(got, want) {
		t.Errorf("committed before the rotation: records %v, want %v", got, want)
	}
	if got := read(t, Reader{Dir: t.TempDir()}); got != nil {
		t.Errorf("an empty directory has records %v", got)
	}
}

func TestReaderLines(t *testing.T) {
	t.Parallel()
	dir, active := threeFiles(t)
	var got []byte
	for line, err := range (Reader{Dir: dir}).Lines() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line...)
	}
	if !bytes.HasSuffix(got, active) || bytes.Count(got, []byte{'\n'}) != 9 {
		t.Errorf("lines %s, want 9, which end with those of the active file", got)
	}
	for range (Reader{Dir: dir}).Lines() {
		break // an iteration may end early
	}
}

func TestReaderEnd(t *testing.T) {
	t.Parallel()
	dir, active := threeFiles(t)
	write(t, dir, Pages.active(), append(active, `{"url":"http://h/half`...))
	if got, want := read(t, Reader{Dir: dir}), ids(0, 9); !slices.Equal(got, want) {
		t.Errorf("with half a line: records %v, want %v", got, want)
	}
	for n := range 4 {
		length := 0
		for range n {
			length += bytes.IndexByte(active[length:], '\n') + 1
		}
		end := frontier.Position{{File: Pages.active(), Length: int64(length)}, {File: Pages.closed(2)}}
		if got, want := read(t, Reader{Dir: dir, End: end}), ids(0, 6+n); !slices.Equal(got, want) {
			t.Errorf("up to byte %d: records %v, want %v", length, got, want)
		}
	}
}

func TestReaderDamage(t *testing.T) {
	t.Parallel()
	committed := func(n int64) frontier.Position {
		return frontier.Position{{File: Pages.active(), Length: n}, {File: Pages.closed(2)}}
	}
	tests := []struct {
		name   string
		damage func(t *testing.T, dir string, active []byte)
		end    frontier.Position
		want   string
	}{
		{"short", func(*testing.T, string, []byte) {}, committed(1 << 20), "but 1048576 were committed"},
		{"gone", func(t *testing.T, dir string, _ []byte) { _ = os.Remove(filepath.Join(dir, Pages.active())) },
			committed(10), "is gone, but 10 bytes were committed"},
		{"within a line", func(*testing.T, string, []byte) {}, committed(10), "the file ends within a line"},
		{"closed within a line", func(t *testing.T, dir string, active []byte) {
			write(t, dir, Pages.closed(2), active[:len(active)-1])
		}, nil, Pages.closed(2) + ", byte "},
		{"packed file cut", func(t *testing.T, dir string, _ []byte) {
			_ = os.Truncate(filepath.Join(dir, Pages.closed(1)+zstdSuffix), 30)
		}, nil, Pages.closed(1) + zstdSuffix + ", byte 0: unexpected EOF"},
		{"no record", func(t *testing.T, dir string, active []byte) {
			write(t, dir, Pages.closed(2), append(active, "x\n"...))
		}, nil, "invalid character 'x'"},
		{"endless line", func(t *testing.T, dir string, active []byte) {
			write(t, dir, Pages.active(), make([]byte, maxLineBytes+1))
		}, nil, Pages.active() + ", byte 0: the line is too long"},
		{"no directory", func(t *testing.T, dir string, _ []byte) { _ = os.RemoveAll(dir) }, nil, "no such file"},
	}
	for _, tt := range tests {
		dir, active := threeFiles(t)
		tt.damage(t, dir, active)
		var last error
		for _, err := range (Reader{Dir: dir, End: tt.end}).All() {
			last = err
		}
		if last == nil || !strings.Contains(last.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, last, tt.want)
		}
		all := Reader{Dir: dir, End: tt.end}.Lines()
		if err := JoinReferrers(t.Context(), all, t.TempDir(), func(Lines) error { return nil }); err == nil {
			t.Errorf("%s: JoinReferrers returned no error", tt.name)
		}
		if _, err := Latest(t.Context(), all, t.TempDir()); err == nil {
			t.Errorf("%s: Latest returned no error", tt.name)
		}
	}
}

// TestReaderReadsFiles reads with Reader what Files writes.
func TestReaderReadsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, err := Open(Config{Dir: dir, RotateBytes: 900, Compress: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var end frontier.Position
	for n := range 20 {
		r := sample(n, n-1)
		if err := files.Append(&r); err != nil {
			t.Fatal(err)
		}
		if end, err = files.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := read(t, Reader{Dir: dir, End: end}), ids(0, 20); !slices.Equal(got, want) {
		t.Errorf("while Files is open: records %v, want %v", got, want)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	packed, _ := filepath.Glob(filepath.Join(dir, "*"+zstdSuffix))
	if got, want := read(t, Reader{Dir: dir, End: end}), ids(0, 20); !slices.Equal(got, want) || len(packed) < 3 {
		t.Errorf("records %v, want %v; %d packed files, want at least 3", got, want, len(packed))
	}
}

func TestFindRecord(t *testing.T) {
	t.Parallel()
	dir, active := threeFiles(t)
	again := sample(4, 2)
	again.Round = 1
	write(t, dir, Pages.active(), append(active, line(t, again)...))
	r := Reader{Dir: dir}
	for n := range 9 {
		want := sample(n, n-2)
		if n == 4 {
			want = again
		}
		for _, key := range []string{want.ID, want.URL} {
			got, ok, err := r.Find(key)
			if err != nil || !ok || !cmp.Equal(got, want) {
				t.Errorf("Find(%q) = %+v, %v, %v, want %+v", key, got, ok, err, want)
			}
		}
	}
	for _, key := range []string{idOf(9), "http://h/9", "http://h/", ""} {
		if got, ok, err := r.Find(key); ok || err != nil {
			t.Errorf("Find(%q) = %+v, %v, %v, want none", key, got, ok, err)
		}
	}
	// Another JSON encoder may have escaped the URL differently.
	plain := strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(string(line(t, sample(9, -1))))
	write(t, dir, Pages.active(), []byte(plain))
	if got, ok, err := r.Find(sample(9, -1).URL); err != nil || !ok || !cmp.Equal(got, sample(9, -1)) {
		t.Errorf("Find with a plain & in the file = %+v, %v, %v", got, ok, err)
	}
}

func TestTrailToSeed(t *testing.T) {
	t.Parallel()
	dir, active := threeFiles(t)
	r := Reader{Dir: dir}
	trail := func(key string) (all []string) {
		t.Helper()
		records, err := r.Trail(key)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range records {
			all = append(all, record.ID)
		}
		return all
	}
	for key, want := range map[string][]string{
		idOf(8):             {idOf(8), idOf(6), idOf(4), idOf(2), idOf(0)},
		sample(5, 3).URL:    {idOf(5), idOf(3), idOf(1)},
		idOf(1):             {idOf(1)},
		"http://h/unknown/": nil,
	} {
		if got := trail(key); !slices.Equal(got, want) {
			t.Errorf("Trail(%q) = %v, want %v", key, got, want)
		}
	}
	// Two records that are each other's referrers end the trail. Only damage can cause them.
	write(t, dir, Pages.active(), append(active, slices.Concat(line(t, sample(20, 21)), line(t, sample(21, 20)))...))
	if got, want := trail(idOf(21)), []string{idOf(21), idOf(20)}; !slices.Equal(got, want) {
		t.Errorf("a circle has the trail %v, want %v", got, want)
	}
	var text []byte
	for n := range 3 * MaxTrail {
		text = append(text, line(t, sample(100+n, 99+n))...)
	}
	write(t, dir, Pages.active(), text)
	if got := trail(idOf(99 + 3*MaxTrail)); len(got) != MaxTrail {
		t.Errorf("a long trail has %d records, want %d", len(got), MaxTrail)
	}
}

// TestSelectionsStopWithContext: JoinReferrers and Latest return the error of their context.
func TestSelectionsStopWithContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, Pages.active(), line(t, sample(1, 0)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lines := Reader{Dir: dir}.Lines()
	err := JoinReferrers(ctx, lines, t.TempDir(), func(Lines) error { return nil })
	_, err2 := Latest(ctx, lines, t.TempDir())
	if !errors.Is(err, context.Canceled) || !errors.Is(err2, context.Canceled) {
		t.Errorf("errors %v and %v, want %v", err, err2, context.Canceled)
	}
}

// textOf returns all lines.
func textOf(t *testing.T, lines Lines) (text []byte) {
	t.Helper()
	for line, err := range lines {
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, line...)
	}
	return text
}

// FuzzJoinReferrers writes random records, and compares the result of JoinReferrers with that
// of a map in memory.
func FuzzJoinReferrers(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed, uint16(40*seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint16) {
		dir, temp, random := t.TempDir(), t.TempDir(), rand.New(rand.NewPCG(seed, 0))
		urls := map[string]string{}
		var records []Record
		var text []byte
		files := 0
		for n := range int(n % 1000) {
			record := sample(n, random.IntN(n+5)-1)
			urls[record.ID] = record.URL
			records = append(records, record)
			text = append(text, line(t, record)...)
			if random.IntN(50) == 0 {
				files++
				write(t, dir, Pages.closed(files)+[]string{"", zstdSuffix}[random.IntN(2)], text)
				text = nil
			}
		}
		write(t, dir, Pages.active(), text)
		var out bytes.Buffer
		err := JoinReferrers(t.Context(), Reader{Dir: dir}.Lines(), temp, func(joined Lines) error {
			for range joined {
				break // the next iteration begins again
			}
			_, err := out.Write(textOf(t, joined))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range records {
			text, _ := out.ReadBytes('\n')
			var got struct {
				Record
				Referrer string `json:"referrer"`
			}
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatalf("line %s: %v", text, err)
			}
			referrer, known := urls[want.ReferrerID]
			if !cmp.Equal(got.Record, want) || got.Referrer != referrer || bytes.Contains(text, []byte(`,"referrer":`)) != known {
				t.Fatalf("line %s, want %+v with the referrer %q", text, want, referrer)
			}
		}
		if out.Len() > 0 {
			t.Fatalf("more lines: %s", out.Bytes())
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Fatalf("JoinReferrers left the files %v (%v)", left, err)
		}
	})
}

// TestOpenWhileRenamed opens a file again and again while it is closed and becomes the active one again, as after a crash.
// It is never missing, and never another file.
func TestOpenWhileRenamed(t *testing.T) {
	r := Reader{Dir: t.TempDir()}
	active, closed := r.path(r.Series.active()), r.path(r.Series.closed(7))
	write := func(name, content string) {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Error(err)
		}
	}
	write(active, "seventh")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			err := os.Rename(active, closed)
			write(active, "eighth")
			time.Sleep(time.Microsecond)
			if err = errors.Join(err, os.Rename(closed, active)); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Microsecond)
		}
	}()
	for range 3000 {
		f, err := r.open(7)
		if err != nil || f == nil {
			t.Errorf("open returns %v, error %v, want a file", f, err)
			break
		}
		content, err := io.ReadAll(f)
		_ = f.Close()
		if err != nil || string(content) != "seventh" {
			t.Errorf("the file has %q, error %v, want that of file 7", content, err)
			break
		}
	}
	close(stop)
	<-stopped
}
