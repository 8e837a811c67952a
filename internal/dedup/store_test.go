package dedup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// TestRunsOfADirectory: the outputs of several runs with one directory are together the same as
// the output of one run with all the lines.
func TestRunsOfADirectory(t *testing.T) {
	for _, settings := range []Settings{small, exact, {}} {
		dir := filepath.Join(t.TempDir(), "not", "there")
		all := urls(500)
		half := len(urls(250))
		first := Config{Dir: dir, Settings: settings}
		if got := mustDedup(t, all[:half], first); got.out != all[:half] || got.Before != 0 || got.Keys != 250 {
			t.Errorf("%v: the first run printed %d bytes, want all %d: %+v", settings, len(got.out), half, got.Result)
		}
		if got := mustDedup(t, all, stored(t, dir)); got.out != all[half:] || got.Before != 250 || got.Keys != 500 {
			t.Errorf("%v: the second run printed %d bytes, want the %d new ones: %+v", settings, len(got.out), len(all)-half, got.Result)
		}
		if got := mustDedup(t, all, first); got.out != "" || got.Keys != 500 {
			t.Errorf("%v: the third run printed %q: %+v", settings, got.out, got.Result)
		}
	}
}

func TestForeignDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "crawl.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadSettings(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the settings of the directory of a crawl: %v, want none", err)
	}
	if _, err := dedup(t.Context(), "", Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "crawl.json") {
		t.Errorf("%v, want the directory of a crawl refused", err)
	}
	dir = t.TempDir()
	for text, want := range map[string]string{
		`{"format": 1}`: "format 1", `{`: "unexpected end", `{"format": 2, "id": "xx"}`: "32 hex digits",
	} {
		if err := os.WriteFile(filepath.Join(dir, cardFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := dedup(t.Context(), "", Config{Dir: dir})
		_, _, errRead := ReadSettings(dir)
		for _, err := range []error{err, errRead} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("card %s: %v, want %q", text, err, want)
			}
		}
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	mustDedup(t, "", Config{Dir: dir, Settings: exact})
	s, err := openStore(stored(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	cmd := childCommand(t, "-", childConfig{Dir: dir, Settings: exact})
	if err := cmd.Run(); err == nil || !strings.Contains(cmd.Stderr.(*bytes.Buffer).String(), "in use") {
		t.Errorf("a second process: %v\n%s", err, cmd.Stderr)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// TestPrintedPartIsRemembered: if a disk becomes full within a group, the printed lines
// are remembered. The next run prints the remaining lines of the group.
func TestPrintedPartIsRemembered(t *testing.T) {
	all := urls(100)
	for _, room := range []int{0, 10, len(all) / 2, len(all) - 1} {
		dir := t.TempDir()
		out := &fullDisk{room: room}
		_, err := Run(t.Context(), Config{Dir: dir, Settings: small}, strings.NewReader(all), out, io.Discard)
		if !errors.Is(err, errFull) {
			t.Errorf("the run ended with %v, want %v", err, errFull)
		}
		whole := out.text.String()
		whole = whole[:strings.LastIndexByte(whole, '\n')+1]
		if got := mustDedup(t, all, stored(t, dir)); whole+got.out != all {
			t.Errorf("room for %d bytes: then %d lines are printed, want all but the first %d",
				room, strings.Count(got.out, "\n"), strings.Count(whole, "\n"))
		}
	}
}

var errFull = errors.New("no room")

type fullDisk struct {
	text bytes.Buffer
	room int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n, _ := d.text.Write(p[:min(len(p), d.room-d.text.Len())])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

// TestTornJournal: if only a part of the last record is on disk, all records before it
// are read. The length of the part does not matter.
func TestTornJournal(t *testing.T) {
	dir := t.TempDir()
	all := urls(20)
	half := len(urls(10))
	mustDedup(t, all[:half], Config{Dir: dir, Settings: exact})
	name := filepath.Join(dir, numbered(journalPrefix, 0, ""))
	first := read(t, name)
	mustDedup(t, all, stored(t, dir))
	second := read(t, name)
	for cut := len(first); cut < len(second); cut++ {
		if n := cut - len(first); n > recordBytes && n%printBytes > 2 && !*proof {
			continue
		}
		for _, tail := range [][]byte{nil, make([]byte, 50)} { // a file system can leave zeros
			if len(tail) > 0 && bytes.Equal(second[cut:], make([]byte, len(second)-cut)) {
				continue
			}
			write(t, name, slices.Concat(second[:cut], tail))
			if got := mustDedup(t, all, stored(t, dir)); got.out != all[half:] {
				t.Fatalf("cut at byte %d of %d, %d zeros: printed %q", cut, len(second), len(tail), got.out)
			}
			if now := read(t, name); !bytes.Equal(now, second) {
				t.Fatalf("cut at byte %d of %d: then the journal has %d bytes, not those it had", cut, len(second), len(now))
			}
			if got := mustDedup(t, all, stored(t, dir)); got.out != "" {
				t.Fatalf("cut at byte %d of %d: the run after the next printed %q", cut, len(second), got.out)
			}
		}
	}
}

// TestDamageIsRefused: damage that a kill cannot cause is reported as an error. The
// damaged record is not taken for the end of the file.
func TestDamageIsRefused(t *testing.T) {
	const lines = 100_000 // enough to make the journal longer than the longest record
	dir := t.TempDir()
	mustDedup(t, urls(25_000), Config{Dir: dir, Settings: small, interval: 20_000}) // the filter is saved once
	mustDedup(t, urls(lines), stored(t, dir))                                       // the later keys are only in the journal
	journal := filepath.Join(dir, numbered(journalPrefix, 1, ""))
	filter := filepath.Join(dir, numbered(filterPrefix, 1, filterSuffix))
	want := []string{"LOCK", cardFile, filepath.Base(filter), filepath.Base(journal)}
	slices.Sort(want)
	if got := files(t, dir); !slices.Equal(got, want) {
		t.Fatalf("the directory has %v, want %v", got, want)
	}
	intact := map[string][]byte{journal: read(t, journal), filter: read(t, filter)}
	for what, damage := range map[string]func(){
		"journal gone":            func() { os.Remove(journal) },
		"journal empty":           func() { write(t, journal, nil) },
		"journal's header":        func() { flip(t, journal, 20) },
		"journal's first record":  func() { flip(t, journal, headerBytes+100) },
		"filter gone":             func() { os.Remove(filter) },
		"filter damaged":          func() { flip(t, filter, 5000) },
		"filter cut":              func() { write(t, filter, intact[filter][:10000]) },
		"journal of another time": func() { write(t, journal, journalHeader([16]byte{1}, 1)) },
	} {
		damage()
		_, err := dedup(t.Context(), "http://a.test/\n", stored(t, dir))
		if !errors.Is(err, bloomstore.ErrFilterLost) {
			t.Errorf("%s: %v, want ErrFilterLost", what, err)
		}
		for name, text := range intact {
			write(t, name, text)
		}
	}
	if got := mustDedup(t, urls(lines), stored(t, dir)); got.out != "" {
		t.Errorf("the intact directory does not know %d URLs", strings.Count(got.out, "\n"))
	}
}

// FuzzJournal: for any content of a journal, openJournal succeeds or returns
// ErrFilterLost. If the journal is opened again, the result is the same.
func FuzzJournal(f *testing.F) {
	id := [16]byte{7}
	name := filepath.Join(f.TempDir(), "journal")
	j, err := createJournal(name, id, 3)
	if err != nil {
		f.Fatal(err)
	}
	for n := range 3 {
		if err := j.append(make([]bloomstore.Fingerprint, n+1)); err != nil {
			f.Fatal(err)
		}
	}
	_ = j.f.Close()
	whole, err := os.ReadFile(name)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range [][]byte{nil, whole, whole[:60], append(bytes.Clone(whole), 1, 0, 0, 0)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		name := filepath.Join(t.TempDir(), "journal")
		write(t, name, text)
		count := func() (keys uint64, err error) {
			j, err := openJournal(name, id, 3, func(bloomstore.Fingerprint) error { return nil })
			if err != nil {
				return 0, err
			}
			return j.keys, j.f.Close()
		}
		first, err := count()
		if err != nil && !errors.Is(err, bloomstore.ErrFilterLost) {
			t.Fatal(err)
		}
		if again, errAgain := count(); again != first || (err == nil) != (errAgain == nil) {
			t.Errorf("%d keys, %v, and then %d keys, %v", first, err, again, errAgain)
		}
	})
}

func flip(t *testing.T, name string, at int) {
	t.Helper()
	text := bytes.Clone(read(t, name))
	text[at] ^= 0x10
	write(t, name, text)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestExactSet: exactSet answers as a map does, and takes no more memory than documented.
func TestExactSet(t *testing.T) {
	rnd := random(t)
	set := new(exactSet)
	known := make(map[bloomstore.Fingerprint]bool)
	var prints []bloomstore.Fingerprint
	for i := range 300_000 {
		var fp bloomstore.Fingerprint
		switch {
		case i > 0 && rnd.IntN(4) == 0:
			fp = prints[rnd.IntN(len(prints))]
		case rnd.IntN(10) > 0: // otherwise, add the zero fingerprint
			for j := range fp {
				fp[j] = byte(rnd.Uint32())
			}
		}
		prints = append(prints, fp)
		if added := set.add(fp); added == known[fp] {
			t.Fatalf("add of %x is %t, and it was known: %t", fp, added, known[fp])
		}
		known[fp] = true
	}
	if set.keys() != uint64(len(known)) {
		t.Errorf("%d keys, want %d", set.keys(), len(known))
	}
	if per := float64(set.bytes()) / float64(len(known)); per < 19 || per > 26 {
		t.Errorf("%.1f bytes a key, want 20 to 25", per)
	}
}

func BenchmarkExactSet(b *testing.B) {
	const n = 1_000_000
	hasher := bloomstore.NewHasher(bloomstore.NewKey())
	prints := make([]bloomstore.Fingerprint, n)
	for i := range prints {
		prints[i] = hasher.Fingerprint(fmt.Sprint(i))
	}
	for b.Loop() {
		set := new(exactSet)
		for _, fp := range prints {
			set.add(fp)
		}
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "adds/s")
}

// TestDamageInShortJournal: a damaged record is not taken for the last one if another
// record follows.
func TestDamageInShortJournal(t *testing.T) {
	dir := t.TempDir()
	mustDedup(t, urls(10), Config{Dir: dir, Settings: exact})
	mustDedup(t, urls(20), stored(t, dir))
	name := filepath.Join(dir, numbered(journalPrefix, 0, ""))
	flip(t, name, headerBytes+recordBytes+20)
	damaged := read(t, name)
	if got, err := dedup(t.Context(), urls(20), stored(t, dir)); !errors.Is(err, bloomstore.ErrFilterLost) {
		t.Errorf("%v, %d URLs printed, want ErrFilterLost", err, strings.Count(got.out, "\n"))
	}
	if now := read(t, name); !bytes.Equal(now, damaged) {
		t.Errorf("the damaged journal was cut from %d to %d bytes", len(damaged), len(now))
	}
}

// TestDamagedCount: if the number of fingerprints of a record is damaged, the set is refused,
// whatever the wrong number is. The record is not removed as one that a crash left incomplete.
func TestDamagedCount(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, numbered(journalPrefix, 0, ""))
	mustDedup(t, urls(10), Config{Dir: dir, Settings: exact})
	last := len(read(t, name))
	mustDedup(t, urls(20), stored(t, dir))
	intact := read(t, name)
	for _, at := range []int{headerBytes, last} {
		for _, wrong := range []uint32{0, 1, 9, 11, 12, 100, uint32(groupLines), 1 << 31} {
			damaged := bytes.Clone(intact)
			binary.LittleEndian.PutUint32(damaged[at:], wrong)
			write(t, name, damaged)
			got, err := dedup(t.Context(), urls(20), stored(t, dir))
			if where := fmt.Sprintf("byte %d ", at); !errors.Is(err, bloomstore.ErrFilterLost) ||
				!strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), where) {
				t.Errorf("number %d at byte %d: %v, %d URLs printed, want ErrFilterLost, the name and %q",
					wrong, at, err, strings.Count(got.out, "\n"), where)
			}
			if now := read(t, name); !bytes.Equal(now, damaged) {
				t.Errorf("number %d at byte %d: the damaged journal was cut from %d to %d bytes", wrong, at, len(damaged), len(now))
			}
		}
	}
}

// TestLostCardIsRefused: without its card, a set is not taken for an empty one.
func TestLostCardIsRefused(t *testing.T) {
	dir := t.TempDir()
	mustDedup(t, urls(10), Config{Dir: dir, Settings: exact})
	journal := read(t, filepath.Join(dir, numbered(journalPrefix, 0, "")))
	if err := os.Remove(filepath.Join(dir, cardFile)); err != nil {
		t.Fatal(err)
	}
	if got, err := dedup(t.Context(), urls(10), Config{Dir: dir, Settings: exact}); !errors.Is(err, bloomstore.ErrFilterLost) {
		t.Errorf("%v, %d URLs printed, want ErrFilterLost", err, strings.Count(got.out, "\n"))
	}
	if now := read(t, filepath.Join(dir, numbered(journalPrefix, 0, ""))); !bytes.Equal(now, journal) {
		t.Errorf("the journal was cut from %d to %d bytes", len(journal), len(now))
	}
}
