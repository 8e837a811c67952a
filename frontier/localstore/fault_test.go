package localstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
)

func edit(t *testing.T, fs vfs.FS, name string, change func([]byte) []byte) {
	t.Helper()
	file, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	out, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(change(content)); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// closedCrawl makes a crawl with items in every state and a checkpoint, and closes it.
func closedCrawl(t *testing.T, cfg Config) (urls []string) {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	items := append(smallItems("a.test", 0), smallItems("b.test", 0)...)
	items = append(items, frontier.Offer{URL: "https://b.test/late", Host: "b.test", Delay: 1 << 40})
	for i := range items {
		items[i].Class = frontier.Class(i % 2)
		urls = append(urls, items[i].URL)
	}
	if _, err := s.Add(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{1}}})
	if err != nil || len(grant.Leases) != 1 {
		t.Fatalf("Lease = %d leases, %v, want 1", len(grant.Leases), err)
	}
	leased := grant.Leases[0].Items
	done := []frontier.Completion{
		{Item: leased[0].Fingerprint, Outcome: frontier.OK}, {Item: leased[1].Fingerprint, Outcome: frontier.Network},
		{Item: leased[2].Fingerprint, Disposition: frontier.Retry, RetryIn: 1 << 40},
	}
	if err := s.Complete(t.Context(), frontier.LeaseID{1}, done, frontier.HostUpdate{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return urls
}

func checkpointName(t *testing.T, fs vfs.FS, dir string) string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, checkpointPrefix) {
			return fs.PathJoin(dir, name)
		}
	}
	t.Fatalf("no checkpoint among %q", names)
	return ""
}

// TestFilterLost: if the filter file is damaged, missing or of another crawl, the error
// names the file and says what to do. Rebuild makes the same filter again.
func TestFilterLost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damage func(t *testing.T, fs vfs.FS, file string)
		want   error
	}{
		"missing": {func(t *testing.T, fs vfs.FS, file string) {
			if err := fs.Remove(file); err != nil {
				t.Fatal(err)
			}
		}, frontier.ErrFilterLost},
		"empty": {func(t *testing.T, fs vfs.FS, file string) {
			edit(t, fs, file, func([]byte) []byte { return nil })
		}, frontier.ErrFilterLost},
		"short": {func(t *testing.T, fs vfs.FS, file string) {
			edit(t, fs, file, func(b []byte) []byte { return b[:len(b)-1] })
		}, frontier.ErrFilterLost},
		"one bit": {func(t *testing.T, fs vfs.FS, file string) {
			edit(t, fs, file, func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
		}, frontier.ErrFilterLost},
		"of another crawl": {func(t *testing.T, fs vfs.FS, file string) {
			other := Config{Dir: "other", FS: fs, Filter: membits.Config{Capacity: 1000}}
			closedCrawl(t, other)
			edit(t, fs, file, func([]byte) (content []byte) {
				edit(t, fs, checkpointName(t, fs, "other"), func(b []byte) []byte { content = bytes.Clone(b); return b })
				return content
			})
		}, frontier.ErrParamsMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			cfg := Config{Dir: "crawl", FS: fs, Filter: membits.Config{Capacity: 1000}}
			urls := closedCrawl(t, cfg)
			s, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			want := bits(s.filter.(*membits.Filter))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			file := checkpointName(t, fs, "crawl")
			tc.damage(t, fs, file)
			_, err = Open(cfg)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "rebuild") {
				t.Fatalf("Open = %v, want %v with the file and the word rebuild", err, tc.want)
			}
			wantFilter(t, Rebuild, cfg, want, urls)
			wantFilter(t, Open, cfg, want, urls)
		})
	}
}

// wantFilter opens a crawl and checks that its filter has the given bits and
// URLs.
func wantFilter(t *testing.T, open func(Config) (*Store, error), cfg Config, want []byte, urls []string) {
	t.Helper()
	s, err := open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if string(bits(s.filter.(*membits.Filter))) != string(want) {
		t.Errorf("the filter's bits differ from those before the damage")
	}
	for _, url := range urls {
		if !s.filter.Has(s.hasher.Fingerprint(url)) {
			t.Errorf("the filter has lost %s", url)
		}
	}
	for _, fault := range checkTables(s) {
		t.Error(fault)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRebuildKeepsLeasedHostsBack: after Rebuild, as after Open, a host that a killed
// process had leased is not due before its delay has passed.
func TestRebuildKeepsLeasedHostsBack(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	cfg := Config{Dir: "crawl", FS: fs, Policy: every(time.Second), Filter: membits.Config{Capacity: 1000}}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	late := frontier.Offer{URL: "https://a.test/late", Host: "a.test", Delay: 1}
	if _, err := s.Add(t.Context(), append(smallItems("a.test", 0), late)); err != nil {
		t.Fatal(err)
	}
	if grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{1}}}); err != nil || len(grant.Leases) != 1 {
		t.Fatal(grant, err)
	}
	s.guard.fail(errKilled)
	_ = s.Close()
	if s, err = Rebuild(cfg); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{2}}})
	if err != nil || len(grant.Leases) > 0 {
		t.Errorf("%d hosts leased right after Rebuild, %v, want none before the delay has passed", len(grant.Leases), err)
	}
}

// refusedConfig is the configuration of the crawls that the cases in refusals damage.
func refusedConfig(dir string) Config {
	return Config{Dir: dir, Filter: membits.Config{Capacity: 1000}, Settings: frontier.Settings{"depth": "3", "delay": "1s"}}
}

// refusals are ways to damage a crawl, or to open it wrongly.
var refusals = map[string]struct {
	spoil  func(dir string, cfg *Config) error
	is     error
	saying []string
}{
	"later format": {func(dir string, _ *Config) error {
		name := filepath.Join(dir, cardFile)
		card, err := os.ReadFile(name)
		later := strings.Replace(string(card), `"format": 3`, `"format": 4`, 1)
		return errors.Join(err, os.WriteFile(name, []byte(later), 0o644))
	}, frontier.ErrParamsMismatch, []string{cardFile, "format 4", "format 3"}},
	"binary card": {func(dir string, _ *Config) error {
		return os.WriteFile(filepath.Join(dir, cardFile), []byte{0, 1, 2}, 0o644)
	}, nil, []string{cardFile}},
	"settings": {func(_ string, cfg *Config) error {
		cfg.Settings = frontier.Settings{"depth": "4", "scope": "host"}
		return nil
	}, frontier.ErrParamsMismatch, []string{"depth", `"3"`, `"4"`, "delay", `"1s"`, "scope", `"host"`}},
	"filter": {func(_ string, cfg *Config) error {
		cfg.Filter.Capacity = 2000
		return nil
	}, frontier.ErrParamsMismatch, []string{"1000", "2000"}},
	"card gone": {func(dir string, _ *Config) error {
		return os.Remove(filepath.Join(dir, cardFile))
	}, frontier.ErrParamsMismatch, []string{cardFile}},
	"store gone": {func(dir string, _ *Config) error {
		return os.RemoveAll(filepath.Join(dir, dbDir))
	}, frontier.ErrFilterLost, []string{dbDir}},
	"store emptied": {func(dir string, _ *Config) error {
		name := filepath.Join(dir, dbDir)
		return errors.Join(os.RemoveAll(name), os.Mkdir(name, 0o755))
	}, frontier.ErrFilterLost, []string{dbDir}},
	"card of another crawl": {func(dir string, _ *Config) error {
		other := dir + ".other"
		s, err := Open(refusedConfig(other))
		if err != nil {
			return err
		}
		return errors.Join(s.Close(), os.Rename(filepath.Join(other, cardFile), filepath.Join(dir, cardFile)))
	}, frontier.ErrParamsMismatch, []string{cardFile}},
}

// TestSpoiledDirectoriesAreRefused: Open refuses directories that it cannot use, and says what
// is wrong. A second call does the same.
func TestSpoiledDirectoriesAreRefused(t *testing.T) {
	t.Parallel()
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "crawl")
			cfg := refusedConfig(dir)
			closedCrawl(t, cfg)
			if err := refusal.spoil(dir, &cfg); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s, err := Open(cfg)
				if err == nil {
					_ = s.Close()
					t.Fatal("Open succeeded, want an error")
				}
				if refusal.is != nil && !errors.Is(err, refusal.is) {
					t.Errorf("Open = %v, want %v", err, refusal.is)
				}
				for _, word := range refusal.saying {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("Open = %v, which does not contain %q", err, word)
					}
				}
			}
		})
	}
}

// TestForeignDirectory: Open refuses a directory that has other files but no crawl, and
// writes nothing to it.
func TestForeignDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Config{Dir: dir})
	if !errors.Is(err, frontier.ErrParamsMismatch) || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("Open = %v, want ErrParamsMismatch that names a file", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has now %v, %v, want only thesis.tex", entries, err)
	}
	file := filepath.Join(dir, "thesis.tex")
	if _, err := Open(Config{Dir: file}); err == nil || errors.Is(err, frontier.ErrLocked) {
		t.Errorf("Open of a file = %v, want an error other than ErrLocked", err)
	}
}

// TestSecondProcess: while a crawl is open, neither this process nor another one can open it
// again. After Close this process can.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("LOCALSTORE_TEST_DIR"); dir != "" { // the other process
		_, err := Open(Config{Dir: dir})
		fmt.Println("locked:", errors.Is(err, frontier.ErrLocked), err)
		return
	}
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir}); !errors.Is(err, frontier.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second Open in this process = %v, want ErrLocked with the directory's name", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: link}); !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("second Open in this process by a symbolic link = %v, want ErrLocked", err)
	}
	if locked, err := Locked(nil, link); !locked || err != nil {
		t.Errorf("Locked by a symbolic link = %t, %v, want true", locked, err)
	}
	other := exec.Command(os.Args[0], "-test.run=^TestSecondProcess$")
	other.Env = append(os.Environ(), "LOCALSTORE_TEST_DIR="+dir)
	if out, err := other.CombinedOutput(); err != nil || !strings.Contains(string(out), "locked: true") {
		t.Errorf("Open in another process printed %s, %v, want locked: true", out, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stats(t.Context()); !errors.Is(err, frontier.ErrClosed) {
		t.Errorf("a call of a closed store = %v, want ErrClosed", err)
	}
}

// TestCloseEndsList: Close ends a call of List, and waits until List has returned.
func TestCloseEndsList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openMem(t)
		addPages(t, s, "a.test", 100)
		closed := make(chan error, 1)
		visits := 0
		err := s.List(t.Context(), frontier.Queued, "", func(frontier.Item) bool {
			if visits++; visits == 1 {
				go func() { closed <- s.Close() }()
				synctest.Wait()
				if len(closed) > 0 {
					t.Error("Close returned during a call of visit")
				}
			}
			return true
		})
		if !errors.Is(err, frontier.ErrClosed) || visits != 1 {
			t.Errorf("List during Close = %v after %d calls of visit, want ErrClosed after 1", err, visits)
		}
		if err := <-closed; err != nil {
			t.Errorf("Close during a List = %v", err)
		}
	})
}

// TestCloseDuringReads: calls that read the store during or after Close return ErrClosed.
func TestCloseDuringReads(t *testing.T) {
	t.Parallel()
	s := openMem(t)
	addPages(t, s, "a.test", 2000)
	if err := s.db.Flush(); err != nil { // so that the calls read files
		t.Fatal(err)
	}
	calls := map[string]func(n int) error{
		"Recount": func(int) error {
			_, err := s.Recount(t.Context())
			return err
		},
		"Locate": func(int) error {
			_, err := s.Locate(t.Context(), "a.test", "https://a.test/unknown")
			return err
		},
		"Admitted": func(n int) error { // each call has a new key, because the store remembers keys
			_, err := s.Admitted(t.Context(), []string{strconv.Itoa(n)})
			return err
		},
		"Reserved": func(int) error {
			_, _, err := s.Reserved(t.Context(), "a.test", "www.a.test")
			return err
		},
	}
	var reading, ended sync.WaitGroup
	for name, call := range calls {
		reading.Add(1)
		ended.Go(func() {
			err := call(0)
			reading.Done()
			for n := 1; err == nil; n++ {
				err = call(n)
			}
			if !errors.Is(err, frontier.ErrClosed) {
				t.Errorf("%s during Close = %v, want ErrClosed", name, err)
			}
			if err := call(0); !errors.Is(err, frontier.ErrClosed) {
				t.Errorf("%s after Close = %v, want ErrClosed", name, err)
			}
		})
	}
	reading.Wait()
	if err := s.Close(); err != nil {
		t.Errorf("Close during reads = %v", err)
	}
	ended.Wait()
}

// TestConfigFaults: Open reports all faults at once.
func TestConfigFaults(t *testing.T) {
	t.Parallel()
	_, err := Open(Config{LeaseTTL: 1, CheckpointAdds: -1})
	for _, field := range []string{"Dir", "LeaseTTL", "CheckpointAdds"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Open = %v, which does not name %s", err, field)
		}
	}
	if _, err := Open(Config{Dir: filepath.Join(t.TempDir(), "crawl"), Filter: membits.Config{FPR: 2}}); err == nil {
		t.Error("Open accepted a filter with FPR 2")
	}
}

// TestDamagedRows: if a row is damaged or missing, the store fails with an error that names
// the host. So no item is lost silently.
func TestDamagedRows(t *testing.T) {
	t.Parallel()
	at := appendQueueKey(nil, "a.test", queuePos{0, 1})
	for name, damage := range map[string]func(s *Store) error{
		"entry":     func(s *Store) error { return s.db.Set(at, []byte{1, 2}, nil) },
		"entry key": func(s *Store) error { return s.db.Set(append(at, 7), []byte{1, 2}, nil) },
		"gone": func(s *Store) error {
			lower, upper := hostRange(tableQueue, "a.test")
			return s.db.DeleteRange(lower, upper, nil)
		},
		"host": func(s *Store) error { s.hosts = map[string]*host{}; return s.db.Set(hostKey("a.test"), []byte{1}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(Config{Dir: "crawl", FS: vfs.NewMem(), Filter: membits.Config{Capacity: 1000}})
			if err != nil {
				t.Fatal(err)
			}
			addPages(t, s, "a.test", 3)
			// The committer does the damage, because it owns the state.
			if err := s.submit(t.Context(), &op{grant: func(*group) error { return damage(s) }}); err != nil {
				t.Fatal(err)
			}
			_, err = s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{1}}})
			if !errors.Is(err, errRow) || !strings.Contains(err.Error(), "a.test") {
				t.Errorf("Lease = %v, want %v that names the host", err, errRow)
			}
			if s.Err() == nil {
				t.Fatal("the store did not fail")
			}
			if _, again := s.Add(t.Context(), smallItems("b.test", 0)); again == nil || again.Error() != s.Err().Error() {
				t.Errorf("Add after that = %v, want %v", again, s.Err())
			}
			if err := s.Close(); !errors.Is(err, errRow) {
				t.Errorf("Close = %v, want %v", err, errRow)
			}
		})
	}
}
