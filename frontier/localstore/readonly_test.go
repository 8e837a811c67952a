package localstore

import (
	"errors"
	"io"
	"io/fs"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
)

// readOnlyFS is a file system that cannot be written to. It notes attempts to write.
type readOnlyFS struct {
	vfs.FS
	t *testing.T
}

func (f readOnlyFS) refuse(op, name string) error {
	if op != "lock" {
		f.t.Errorf("the read-only store tried to %s %s", op, name)
	}
	return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS}
}

func (f readOnlyFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, f.refuse("create", name)
}

func (f readOnlyFS) Link(_, name string) error { return f.refuse("link", name) }

func (f readOnlyFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, f.refuse("open to write", name)
}

func (f readOnlyFS) Remove(name string) error                  { return f.refuse("remove", name) }
func (f readOnlyFS) RemoveAll(name string) error               { return f.refuse("remove", name) }
func (f readOnlyFS) Rename(_, name string) error               { return f.refuse("rename", name) }
func (f readOnlyFS) MkdirAll(name string, _ fs.FileMode) error { return f.refuse("create", name) }
func (f readOnlyFS) Lock(name string) (io.Closer, error)       { return nil, f.refuse("lock", name) }

func (f readOnlyFS) ReuseForWrite(_, name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, f.refuse("create", name)
}

// TestOpenReadOnly: OpenReadOnly works on a file system that cannot be written to. It shows
// the state that a killed process left, including the leases, and changes nothing.
func TestOpenReadOnly(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	cfg := Config{Dir: "crawl", FS: disk, Filter: membits.Config{Capacity: 100}}
	s := opened(t, cfg, Open)
	items := []frontier.Offer{aPage("a", 0), aPage("b", 0), aPage("c", 0), {URL: "https://b.test/", Host: "b.test"}}
	if _, err := s.Add(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{1}}})
	if err != nil || len(grant.Leases) != 1 {
		t.Fatalf("Lease = %+v, %v", grant, err)
	}
	leased := grant.Leases[0].Items
	done := []frontier.Completion{{Item: leased[0].Fingerprint, Outcome: frontier.OK, Status: 200}}
	if err := s.Complete(t.Context(), frontier.LeaseID{1}, done, frontier.HostUpdate{}); err != nil {
		t.Fatal(err)
	}
	want, err := s.Stats(t.Context())
	if err != nil || want.Done != 1 || want.Leased == 0 {
		t.Fatalf("Stats = %+v, %v", want, err)
	}
	left := disk.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	cfg.FS = readOnlyFS{left, t}
	for range 2 { // the first one changes nothing
		looked := opened(t, cfg, OpenReadOnly)
		if got, err := looked.Stats(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Stats = %+v, %v, want %+v", got, err, want)
		}
		var held []string
		err := looked.List(t.Context(), frontier.Leased, "", func(item frontier.Item) bool {
			held = append(held, item.URL)
			return true
		})
		if err != nil || len(held) != len(leased)-1 || !slices.Contains(held, leased[1].URL) {
			t.Errorf("leased URLs are %q, %v, want %d of the items %+v", held, err, len(leased)-1, leased)
		}
		if audit, err := looked.Recount(t.Context()); err != nil || audit.Leased != want.Leased || audit.Queued != want.Queued || len(audit.Faults) > 0 {
			t.Errorf("Recount = %+v, %v, want %+v", audit, err, want)
		}
		if l, err := looked.Lookup(t.Context(), leased[0].Host, leased[0].URL); err != nil || l.State != frontier.Done {
			t.Errorf("%s is %+v, %v, want done", leased[0].URL, l, err)
		}
		if _, err := looked.Add(t.Context(), items); !errors.Is(err, ErrReadOnly) {
			t.Errorf("Add: %v, want ErrReadOnly", err)
		}
		if _, err := looked.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{2}}}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("Lease: %v, want ErrReadOnly", err)
		}
		if err := looked.Close(); err != nil {
			t.Error(err)
		}
	}
	cfg.FS = left
	again := opened(t, cfg, Open)
	if got, err := again.Stats(t.Context()); err != nil || got.Leased != 0 || got.Queued != want.Queued+want.Leased {
		t.Errorf("after a later Open: Stats = %+v, %v, want 0 leased and %d queued", got, err, want.Queued+want.Leased)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpenReadOnlyRefuses: OpenReadOnly does not create a crawl, and a store that is open
// cannot be opened again, whichever function opened it.
func TestOpenReadOnlyRefuses(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir() + "/crawl", Filter: membits.Config{Capacity: 100}}
	if _, err := OpenReadOnly(cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenReadOnly without a crawl = %v, want ErrNotExist", err)
	}
	s := opened(t, cfg, Open)
	if _, err := OpenReadOnly(cfg); !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("OpenReadOnly of an open store = %v, want ErrLocked", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, cfg, OpenReadOnly)
	if _, err := Open(cfg); !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("Open of a store that is open for reading = %v, want ErrLocked", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
