package localstore

import (
	"fmt"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerFS closes a gap of pebble v2.1.7 (upstream #5825): pebble moves the
// marker that names its manifest without syncing the directory first, so after
// a power loss the marker can name a manifest that is not on disk. Syncing the
// directory before a marker is created or removed orders the two.
type markerFS struct{ vfs.FS }

func (fs markerFS) Unwrap() vfs.FS { return fs.FS }

func (fs markerFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.settle(name); err != nil {
		return nil, err
	}
	return fs.FS.Create(name, category)
}

func (fs markerFS) Remove(name string) error {
	if err := fs.settle(name); err != nil {
		return err
	}
	return fs.FS.Remove(name)
}

func (fs markerFS) settle(name string) error {
	if !strings.HasPrefix(fs.PathBase(name), "marker.") {
		return nil
	}
	return syncDir(fs.FS, fs.PathDir(name))
}

func syncDir(fs vfs.FS, name string) error {
	dir, err := fs.OpenDir(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// guardFS turns the first failed write below pebble into the store's failure.
// Pebble answers such errors by ending the process or by retrying for ever;
// behind the guard it never sees them: the writing goroutine stops where it is
// and every caller of the store gets the one error.
type guardFS struct {
	vfs.FS
	guard *guard
}

type guard struct {
	mu     sync.Mutex
	armed  bool
	err    error
	failed chan struct{} // closed with err set
}

func newGuard() *guard { return &guard{failed: make(chan struct{})} }

// arm makes write errors final; before it (while a store opens) they are returned.
func (g *guard) arm() {
	g.mu.Lock()
	g.armed = true
	g.mu.Unlock()
}

// disarm returns errors again: the store is closing.
func (g *guard) disarm() {
	g.mu.Lock()
	g.armed = false
	g.mu.Unlock()
}

// fail records the first error.
func (g *guard) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
		close(g.failed)
	}
}

func (g *guard) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// check returns err unless the guard is armed: then it never returns.
func (g *guard) check(op, name string, err error) error {
	if err == nil {
		return nil
	}
	g.mu.Lock()
	armed := g.armed
	g.mu.Unlock()
	if !armed {
		return err
	}
	g.fail(fmt.Errorf("localstore: %s %s: %w", op, name, err))
	select {} // the disk is gone for this process: nothing behind this line may run
}

func (fs guardFS) Unwrap() vfs.FS { return fs.FS }

func (fs guardFS) file(f vfs.File, op, name string, err error) (vfs.File, error) {
	if err = fs.guard.check(op, name, err); err != nil {
		return nil, err
	}
	return guardFile{f, name, fs.guard}, nil
}

func (fs guardFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	return fs.file(f, "create", name, err)
}

func (fs guardFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(old, name, category)
	return fs.file(f, "create", name, err)
}

func (fs guardFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, category, opts...)
	return fs.file(f, "open", name, err)
}

func (fs guardFS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return guardFile{f, name, fs.guard}, nil
}

func (fs guardFS) Rename(old, name string) error {
	return fs.guard.check("rename", name, fs.FS.Rename(old, name))
}

type guardFile struct {
	vfs.File
	name  string
	guard *guard
}

func (f guardFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.guard.check("write", f.name, err)
}

func (f guardFile) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	return n, f.guard.check("write", f.name, err)
}

func (f guardFile) Sync() error { return f.guard.check("sync", f.name, f.File.Sync()) }

func (f guardFile) SyncData() error { return f.guard.check("sync", f.name, f.File.SyncData()) }

func (f guardFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.guard.check("sync", f.name, err)
}
