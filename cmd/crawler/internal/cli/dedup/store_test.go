package dedup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// TestRunsOfADirectory: several runs with one directory print the same as one run with
// all their lines.
func TestRunsOfADirectory(t *testing.T) {
	for _, args := range [][]string{{"--urls=1000"}, {"--exact"}} {
		dir := filepath.Join(t.TempDir(), "not", "there")
		all := urls(500)
		half := len(urls(250))
		first := append([]string{"--dir", dir}, args...)
		if got := mustDedup(t, all[:half], first...); got.out != all[:half] {
			t.Errorf("%v: the first run printed %d bytes, want all %d", args, len(got.out), half)
		}
		if got := mustDedup(t, all, "--dir", dir); got.out != all[half:] { // the settings of dir are adopted
			t.Errorf("%v: the second run printed %d bytes, want the %d new ones", args, len(got.out), len(all)-half)
		}
		if got := mustDedup(t, all, first...); got.out != "" || !strings.Contains(got.err, "500 URLs known") {
			t.Errorf("%v: the third run printed %q:\n%s", args, got.out, got.err)
		}
	}
}

// TestFormIsKept: the canonical form of the first run applies to the later runs.
func TestFormIsKept(t *testing.T) {
	dir := t.TempDir()
	mustDedup(t, "http://a.test/?q=1\n", "--dir", dir, "--strip-param=q")
	if got := mustDedup(t, "http://a.test/?q=2\n", "--dir", dir); got.out != "" {
		t.Errorf("printed %q: the second run has another form than the first", got.out)
	}
	_, err := dedup(t.Context(), "", "--dir", dir, "--strip-param=r")
	if err == nil || !strings.Contains(err.Error(), "canonical form") {
		t.Errorf("another form: %v, want it refused", err)
	}
}

// TestVersionOfForm: a directory whose form has another version or other Unicode tables
// is refused.
func TestVersionOfForm(t *testing.T) {
	dir := t.TempDir()
	mustDedup(t, "http://a.test/\n", "--dir", dir, "--sort-query")
	card := filepath.Join(dir, cardFile)
	text, err := os.ReadFile(card)
	if err != nil {
		t.Fatal(err)
	}
	own := []byte("v2 unicode=" + canon.Tables + " ")
	if !bytes.Contains(text, own) {
		t.Fatalf("no %q in %s", own, text)
	}
	for other, want := range map[string]string{"v1 ": "it has version 1", "v2 unicode=9.0.0 ": "its host names follow Unicode 9.0.0"} {
		if err := os.WriteFile(card, bytes.Replace(text, own, []byte(other), 1), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := dedup(t.Context(), "", "--dir", dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", other, err, want)
		}
	}
}

func TestOtherSettingsAreRefused(t *testing.T) {
	for _, c := range []struct{ first, then, want []string }{
		{[]string{"--urls=1000"}, []string{"--urls=2000", "--fpr=0.1"}, []string{"--urls is 1000 there, 2000 here", "--fpr is 1e-06 there, 0.1 here"}},
		{[]string{"--urls=1000"}, []string{"--exact"}, []string{"--exact is false there, true here"}},
		{[]string{"--exact"}, []string{"--urls=1000"}, []string{"--exact is true there, false here"}},
		{[]string{"--exact"}, []string{"--exact=false"}, []string{"--exact is true there, false here"}},
	} {
		dir := t.TempDir()
		mustDedup(t, "http://a.test/\n", append(c.first, "--dir", dir)...)
		_, err := dedup(t.Context(), "http://a.test/\n", append(c.then, "--dir", dir)...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, then %v: %v, want %q", c.first, c.then, err, want)
			}
		}
	}
}

func TestForeignDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "crawl.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := dedup(t.Context(), "", "--dir", dir); err == nil || !strings.Contains(err.Error(), "crawl.json") {
		t.Errorf("%v, want the directory of a crawl refused", err)
	}
	dir = t.TempDir()
	for text, want := range map[string]string{
		`{"format": 2}`: "format 2", `{`: "unexpected end", `{"format": 1, "id": "xx"}`: "32 hex digits",
	} {
		if err := os.WriteFile(filepath.Join(dir, cardFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := dedup(t.Context(), "", "--dir", dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("card %s: %v, want %q", text, err, want)
		}
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	mustDedup(t, "", "--dir", dir, "--exact")
	of, err := readCard(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openStore(dir, of.settings, of.Canon)
	if err != nil {
		t.Fatal(err)
	}
	cmd := childCommand(t, "-", "--dir", dir)
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
		command := Command()
		command.SetIn(strings.NewReader(all))
		command.SetOut(out)
		command.SetErr(new(bytes.Buffer))
		command.SetArgs([]string{"--dir", dir, "--urls=1000"})
		command.SilenceUsage = true
		if err := command.ExecuteContext(t.Context()); !errors.Is(err, errFull) {
			t.Errorf("the run ended with %v, want %v", err, errFull)
		}
		whole := out.text.String()
		whole = whole[:strings.LastIndexByte(whole, '\n')+1]
		if got := mustDedup(t, all, "--dir", dir); whole+got.out != all {
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
	mustDedup(t, all[:half], "--dir", dir, "--exact")
	name := filepath.Join(dir, numbered(journalPrefix, 0, ""))
	first := read(t, name)
	mustDedup(t, all, "--dir", dir)
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
			if got := mustDedup(t, all, "--dir", dir); got.out != all[half:] {
				t.Fatalf("cut at byte %d of %d, %d zeros: printed %q", cut, len(second), len(tail), got.out)
			}
			if now := read(t, name); !bytes.Equal(now, second) {
				t.Fatalf("cut at byte %d of %d: then the journal has %d bytes, not those it had", cut, len(second), len(now))
			}
			if got := mustDedup(t, all, "--dir", dir); got.out != "" {
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
	command := newCommand(&options{interval: 20_000})
	command.SetIn(strings.NewReader(urls(25_000))) // the filter is saved once
	command.SetOut(new(bytes.Buffer))
	command.SetErr(new(bytes.Buffer))
	command.SetArgs([]string{"--dir", dir, "--urls=1000"})
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustDedup(t, urls(lines), "--dir", dir) // the later keys are only in the journal
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
		_, err := dedup(t.Context(), "http://a.test/\n", "--dir", dir)
		if !errors.Is(err, bloomstore.ErrFilterLost) {
			t.Errorf("%s: %v, want ErrFilterLost", what, err)
		}
		for name, text := range intact {
			write(t, name, text)
		}
	}
	if got := mustDedup(t, urls(lines), "--dir", dir); got.out != "" {
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
