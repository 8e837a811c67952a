package record_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

var proof = flag.Bool("proof", false, "many long random runs")

// journalOf creates a journal, calls write with it, closes it and returns its directory.
func journalOf(t testing.TB, cfg record.Config, write func(*record.Journal)) string {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	journal, err := record.OpenJournal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	write(journal)
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	return cfg.Dir
}

// exported runs an export and returns its lines, sorted.
func exported(t testing.TB, e record.Export) ([]string, record.Exported) {
	t.Helper()
	e.Temp = t.TempDir()
	var out bytes.Buffer
	sums, err := e.To(t.Context(), &out)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(e.Temp); err != nil || len(left) > 0 {
		t.Errorf("the export left the files %v in Temp (%v)", left, err)
	}
	lines := strings.SplitAfter(out.String(), "\n")
	lines = lines[:len(lines)-1]
	slices.Sort(lines)
	return lines, sums
}

// TestExportChoice checks which record of an item and round is exported.
func TestExportChoice(t *testing.T) {
	t.Parallel()
	type entry struct {
		lease  byte
		second int64 // of fetched_at
		title  string
		void   bool // a void line follows the record
	}
	for name, c := range map[string]struct {
		workers [][]entry
		pending bool
		want    string // title; empty means none
		sums    record.Exported
	}{
		"one":                         {workers: [][]entry{{{1, 5, "a", false}}}, want: "a", sums: record.Exported{Records: 1}},
		"taken back":                  {workers: [][]entry{{{1, 5, "a", true}}}, sums: record.Exported{Void: 1}},
		"taken back, then another":    {workers: [][]entry{{{1, 5, "a", true}, {2, 4, "b", false}}}, want: "b", sums: record.Exported{Records: 1, Void: 1}},
		"one worker takes back":       {workers: [][]entry{{{1, 5, "a", true}}, {{2, 4, "b", false}}}, want: "b", sums: record.Exported{Records: 1, Void: 1}},
		"in doubt: the latest":        {workers: [][]entry{{{2, 5, "a", false}}, {{1, 6, "b", false}}}, want: "b", sums: record.Exported{Records: 1, Repeated: 1}},
		"equal times: greatest lease": {workers: [][]entry{{{2, 5, "a", false}}, {{1, 5, "b", false}}}, want: "a", sums: record.Exported{Records: 1, Repeated: 1}},
		"equal leases: the first": {workers: [][]entry{{{1, 5, "a", false}, {1, 5, "b", false}}}, want: "a",
			sums: record.Exported{Records: 1, Repeated: 1}},
		"all of one lease are taken back": {workers: [][]entry{{{1, 5, "a", false}, {1, 5, "b", true}}}, sums: record.Exported{Void: 2}},
		"pending": {workers: [][]entry{{{1, 5, "a", false}}, {{2, 5, "a", true}}}, pending: true,
			sums: record.Exported{Void: 1, Pending: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var dirs []string
			for _, entries := range c.workers {
				dirs = append(dirs, journalOf(t, record.Config{}, func(j *record.Journal) {
					for _, e := range entries {
						r := leased(1, e.lease)
						r.FetchedAt, r.Title = time.Unix(e.second, 0).UTC(), e.title
						_ = j.Append(r)
						if e.void {
							_ = j.Void(r)
						}
					}
				}))
			}
			for range 2 { // the order of the directories does not matter
				e := record.Export{Dirs: dirs}
				if c.pending {
					e.Pending = keys(record.Key{Item: leased(1, 0).Item}, record.Key{Item: leased(9, 0).Item})
				}
				lines, sums := exported(t, e)
				title := ""
				if len(lines) == 1 {
					var r record.Record
					if err := json.Unmarshal([]byte(lines[0]), &r); err != nil {
						t.Fatal(err)
					}
					title = r.Title
				}
				if title != c.want || len(lines) > 1 || sums != c.sums {
					t.Errorf("lines %q, sums %+v; want the title %q, sums %+v", lines, sums, c.want, c.sums)
				}
				slices.Reverse(dirs)
			}
		})
	}
}

// TestExportFirstOfMany: of many records with the same item, lease and time, the first is
// exported.
func TestExportFirstOfMany(t *testing.T) {
	t.Parallel()
	dir := journalOf(t, record.Config{}, func(j *record.Journal) {
		for n := range 500 {
			// The first byte of each fingerprint is 0, so one exportShare has all of these records.
			r := leased(256*(n%3), 1)
			r.FetchedAt, r.LinksAdded = time.Unix(1, 0).UTC(), uint64(n)
			_ = j.Append(r)
		}
	})
	lines, sums := exported(t, record.Export{Dirs: []string{dir}})
	if len(lines) != 3 || sums.Repeated != 497 {
		t.Errorf("%d records, sums %+v, want 3 records, 497 repeated", len(lines), sums)
	}
	for _, line := range lines {
		var r record.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.LinksAdded > 2 {
			t.Errorf("exported %s, %v, want one of the first three records", line, err)
		}
	}
}

// TestExportOfALiveJournal: an export has no lines that were appended while it ran.
func TestExportOfALiveJournal(t *testing.T) {
	t.Parallel()
	long := journalOf(t, record.Config{}, func(j *record.Journal) {
		for n := range 3000 { // more lines than one write contains
			_ = j.Append(leased(n, 1))
		}
	})
	live := record.Config{Dir: t.TempDir(), RotateBytes: 1}
	worker := must(record.OpenJournal(live))
	for n := range 10 {
		_ = worker.Append(leased(5000+n, 2))
		must(worker.Sync()) // each in a file of its own
	}
	var out bytes.Buffer
	more := func() {
		for n := range 10 {
			_ = worker.Append(leased(5000+n, 3))
			must(worker.Sync())
		}
	}
	sums, err := record.Export{Dirs: []string{long, live.Dir}, Temp: t.TempDir()}.To(t.Context(), &onWrite{&out, more})
	if err != nil || sums.Records != 3010 || bytes.Count(out.Bytes(), []byte("\n")) != 3010 {
		t.Errorf("sums %+v, %v, want 3010 records", sums, err)
	}
	_ = worker.Close()
}

// onWrite calls hook before the first write.
type onWrite struct {
	w    *bytes.Buffer
	hook func()
}

func (o *onWrite) Write(b []byte) (int, error) {
	if o.hook != nil {
		o.hook()
		o.hook = nil
	}
	return o.w.Write(b)
}

func keys(all ...record.Key) iter.Seq2[record.Key, error] {
	return func(yield func(record.Key, error) bool) {
		for _, key := range all {
			if !yield(key, nil) {
				return
			}
		}
	}
}

// crowd is a model of workers that share a store. Some of the workers die.
type crowd struct {
	rng     *rand.Rand
	journal []*record.Journal
	dirs    []string
	cfg     []record.Config
	clock   int64
	lease   uint64
	done    map[record.Key]string // URL and time of the record that took effect last
	pending map[record.Key]bool
}

// fetch makes a worker fetch an item, write its record, and complete it. If the completion is
// refused, the worker writes a void line. The worker may die after each step.
func (c *crowd) fetch(key record.Key) {
	w := c.rng.IntN(len(c.journal))
	c.clock++
	c.lease++
	r := &record.Record{URL: fmt.Sprintf("http://a.test/%x", key.Item), Round: int(key.Round), Item: key.Item,
		FetchedAt: time.Unix(0, c.clock*int64(time.Millisecond)).UTC(), Title: strings.Repeat("é\"", c.rng.IntN(40))}
	r.Lease = frontier.LeaseID{0: byte(c.rng.Uint32()), 8: byte(c.lease >> 8), 9: byte(c.lease)}
	j := c.journal[w]
	_ = j.Append(r)
	if c.rng.IntN(10) == 0 { // the worker repeats the call, because the store did not answer
		_ = j.Append(r)
	}
	if c.rng.IntN(10) == 0 { // write the lines to the files now; this model has no crash of the machine
		_, _ = j.Sync()
	}
	switch what := c.rng.IntN(10); {
	case what < 6: // completed
		c.done[key], c.pending[key] = r.URL+r.FetchedAt.String(), false
	case what < 8: // refused
		_ = j.Void(r)
	case what < 9: // refused, and the worker dies with half a void line
		c.kill(w, `{"void":true,"rou`)
	default: // the worker dies before the completion
		c.kill(w, "")
	}
}

// kill ends a worker's process. Another process continues in its directory, or in a new one.
func (c *crowd) kill(w int, half string) {
	_ = c.journal[w].Close()
	name := filepath.Join(c.dirs[w], "pages.jsonl")
	text, _ := os.ReadFile(name)
	_ = os.WriteFile(name, append(text, half...), 0o644)
	if c.rng.IntN(2) == 0 {
		c.cfg[w].Dir = filepath.Join(c.cfg[w].Dir, "next")
		c.dirs = append(c.dirs, c.cfg[w].Dir)
		c.dirs[w], c.dirs[len(c.dirs)-1] = c.dirs[len(c.dirs)-1], c.dirs[w]
	}
	c.journal[w] = must(record.OpenJournal(c.cfg[w]))
}

// TestExportModel: even if workers die at any time, an export has one record for each
// completed item and round. If Export.Pending is set, the export has no other records.
func TestExportModel(t *testing.T) {
	t.Parallel()
	rng, rounds := dice(t), 4
	if *proof {
		rounds = 200
	}
	for range rounds {
		c := &crowd{rng: rng, done: make(map[record.Key]string), pending: make(map[record.Key]bool)}
		for range 4 {
			cfg := record.Config{Dir: t.TempDir(), RotateBytes: 4000, Compress: rng.IntN(2) == 0}
			c.cfg, c.dirs = append(c.cfg, cfg), append(c.dirs, cfg.Dir)
			c.journal = append(c.journal, must(record.OpenJournal(cfg)))
		}
		var open []record.Key
		for n := range 100 {
			key := record.Key{Item: bloomstore.Fingerprint{0: byte(n % 3), 5: byte(n)}, Round: uint32(rng.IntN(2))}
			open, c.pending[key] = append(open, key), true
		}
		for range 130 {
			n := rng.IntN(len(open))
			c.fetch(open[n])
			// In one of 20 cases the store loses the completion, so the item is fetched again.
			if !c.pending[open[n]] && rng.IntN(20) > 0 {
				open = slices.Delete(open, n, n+1)
			}
		}
		for _, j := range c.journal {
			_ = j.Close()
		}
		c.check(t)
	}
}

func (c *crowd) check(t *testing.T) {
	t.Helper()
	var pending []record.Key
	for key, yes := range c.pending {
		if yes {
			pending = append(pending, key)
		}
	}
	c.rng.Shuffle(len(c.dirs), func(i, j int) { c.dirs[i], c.dirs[j] = c.dirs[j], c.dirs[i] })
	exact, sums := exported(t, record.Export{Dirs: c.dirs, Pending: keys(pending...)})
	if len(exact) != len(c.done) || sums.Records != uint64(len(exact)) || sums.Damaged > 0 {
		t.Errorf("%d records for %d completed items; sums %+v", len(exact), len(c.done), sums)
	}
	for _, line := range exact {
		if key, text := keyOf(t, line); c.done[key] == "" || c.done[key] > text {
			t.Errorf("%+v: the exported record is %q, want %q, with which it was completed, or a later one",
				key, text, c.done[key])
		}
	}
	all, sums := exported(t, record.Export{Dirs: c.dirs})
	if missing := missingFrom(all, exact); missing != "" || sums.Pending > 0 {
		t.Errorf("without Pending, %q is missing; sums %+v", missing, sums)
	}
	seen := make(map[record.Key]bool)
	for _, line := range all {
		key, _ := keyOf(t, line)
		if seen[key] {
			t.Errorf("%+v is exported twice", key)
		}
		seen[key] = true
	}
}

func keyOf(t *testing.T, line string) (record.Key, string) {
	t.Helper()
	var r record.Record
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatal(err)
	}
	var key record.Key
	_, text, _ := strings.Cut(r.URL, "a.test/")
	if _, err := hex.Decode(key.Item[:], []byte(text)); err != nil {
		t.Fatal(err)
	}
	key.Round = uint32(r.Round)
	return key, r.URL + r.FetchedAt.String()
}

// TestExportMemory: with -proof, two million records are merged in less memory
// than their keys would take.
func TestExportMemory(t *testing.T) {
	if !*proof {
		t.Skip("runs only with -proof")
	}
	const records, limit = 2_000_000, 48 << 20
	rng := dice(t)
	dir := journalOf(t, record.Config{}, func(j *record.Journal) {
		for n := range records {
			r := &record.Record{URL: "http://a.test/", Round: n, FetchedAt: time.Unix(int64(n), 0).UTC()}
			binary.LittleEndian.PutUint64(r.Item[:], rng.Uint64())
			_ = j.Append(r)
			if n%10_000 == 0 {
				must(j.Sync())
			}
		}
	})
	runtime.GC()
	largest, done := uint64(0), make(chan struct{})
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			largest = max(largest, now.HeapInuse+now.StackInuse)
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	sums, err := record.Export{Dirs: []string{dir}, Temp: t.TempDir()}.To(t.Context(), io.Discard)
	close(done)
	<-sampled
	t.Logf("at most %d MB in use", largest>>20)
	if err != nil || sums.Records != records || largest > limit {
		t.Errorf("sums %+v, %d MB in use, want at most %d MB: %v", sums, largest>>20, limit>>20, err)
	}
}

// TestExportDamage: lines that were never synced and were damaged by a power
// loss are counted and skipped. A closed file that ends within a line is an
// error.
func TestExportDamage(t *testing.T) {
	t.Parallel()
	dir := journalOf(t, record.Config{}, func(j *record.Journal) {
		for n := range 3 {
			_ = j.Append(leased(n, 1))
		}
	})
	name := filepath.Join(dir, "pages.jsonl")
	text := must(os.ReadFile(name))
	second := bytes.IndexByte(text, '\n') + 1
	for what, damage := range map[string]func([]byte) []byte{
		"a hole":  func(b []byte) []byte { clear(b[second+30 : second+40]); return b },
		"no JSON": func(b []byte) []byte { b[second] = 'x'; return b },
		"no fingerprint": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"fingerprint":"01`), []byte(`"fingerprint":"1`), 1)
		},
		"no lease":                  func(b []byte) []byte { return edit(b, second, `"lease":"01`, `"least":"01`) },
		"no round":                  func(b []byte) []byte { return edit(b, second, `"round":0`, `"round":x`) },
		"no time":                   func(b []byte) []byte { return edit(b, second, `"fetched_at":"1`, `"fetched_at":"x`) },
		"a line of another program": func(b []byte) []byte { return slices.Insert(b, second, []byte("{}\n")...) },
	} {
		if err := os.WriteFile(name, damage(bytes.Clone(text)), 0o644); err != nil {
			t.Fatal(err)
		}
		want := 2
		if what == "a line of another program" {
			want = 3
		}
		lines, sums := exported(t, record.Export{Dirs: []string{dir}})
		place := fmt.Sprintf("%s, byte %d:", name, second)
		if len(lines) != want || sums.Damaged != 1 || !strings.Contains(sums.FirstDamage, place) {
			t.Errorf("%s: %d lines, want %d; sums %+v, want 1 damaged line", what, len(lines), want, sums)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "pages-000001.jsonl"), text[:len(text)-1], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := (record.Export{Dirs: []string{dir}}).To(t.Context(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "ends within a line") {
		t.Errorf("half a line in a closed file: %v, want an error", err)
	}
}

// edit replaces the first occurrence of old, at or after offset, by new.
func edit(b []byte, offset int, old, new string) []byte {
	return append(b[:offset:offset], bytes.Replace(b[offset:], []byte(old), []byte(new), 1)...)
}

// TestExportEnds: an export of nothing is empty. An export ends with the error
// of a missing directory, of the writer, of the pending items or of the context.
func TestExportEnds(t *testing.T) {
	t.Parallel()
	if lines, sums := exported(t, record.Export{Dirs: []string{t.TempDir()}}); len(lines) > 0 || sums != (record.Exported{}) {
		t.Errorf("the export of an empty directory has the lines %q, sums %+v", lines, sums)
	}
	dir := journalOf(t, record.Config{}, func(j *record.Journal) { _ = j.Append(leased(1, 1)) })
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, c := range map[string]struct {
		ctx  context.Context
		e    record.Export
		want error
	}{
		"no directory": {t.Context(), record.Export{Dirs: []string{filepath.Join(dir, "none")}}, os.ErrNotExist},
		"stopped":      {stopped, record.Export{Dirs: []string{dir}}, context.Canceled},
		"full":         {t.Context(), record.Export{Dirs: []string{dir}}, errFull},
		"pending": {t.Context(), record.Export{Dirs: []string{dir}, Pending: func(yield func(record.Key, error) bool) {
			yield(record.Key{}, frontier.ErrUnavailable)
		}}, frontier.ErrUnavailable},
	} {
		if _, err := c.e.To(c.ctx, fullWriter{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
