package localstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard ends the use of the store after the first write that fails. After such an error,
// pebble would end the process, panic, or repeat the write for ever. Therefore the guard
// hides the error from pebble: the goroutine that wrote blocks for ever, no other write
// begins, and every caller of the store gets the error.
//
// After the channel failed is closed, this Store writes nothing more to the disk, and the directory
// can be opened again, even by this process.
type guard struct {
	mu     sync.RWMutex  // read-locked during each write
	err    error         // the first failure
	failed chan struct{} // closed when err is set and no write is in progress
}

func newGuard() *guard { return &guard{failed: make(chan struct{})} }

// fail records the first failure. It waits for the writes in progress.
func (g *guard) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
		close(g.failed)
	}
}

func (g *guard) failure() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.err
}

// write runs one write to the disk. If this write fails, or another one has failed before,
// the method never returns.
func (g *guard) write(op, name string, work func() error) {
	g.mu.RLock()
	err := g.err
	if err == nil {
		err = work()
	}
	g.mu.RUnlock()
	if err != nil {
		g.stop(fmt.Errorf("localstore: %s %s: %w", op, name, err))
	}
}

// stop records a failure and never returns, so that no code after it runs. The goroutine
// and its open files stay until the process ends.
func (g *guard) stop(err error) {
	g.fail(err)
	select {}
}

// await calls a function that can write to the disk, and returns its error. If a write
// fails, the function might never return, but await returns the failure.
func (g *guard) await(work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-g.failed:
		return g.failure()
	}
}

// guardFS is the file system of pebble.
type guardFS struct {
	vfs.FS
	guard *guard
}

func (f guardFS) Unwrap() vfs.FS { return f.FS }

// Lock does nothing. The crawl's directory has a lock of its own. A lock of pebble would
// stay after a failure, because pebble could not release it.
func (f guardFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// open opens a file for writing, under the guard.
func (f guardFS) open(op, name string, open func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	f.guard.write(op, name, func() (err error) {
		file, err = open()
		return err
	})
	return guardFile{file, name, f.guard}, nil
}

func (f guardFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open("create", name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

func (f guardFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open("create", name, func() (vfs.File, error) { return f.FS.ReuseForWrite(old, name, category) })
}

func (f guardFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.open("open", name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

func (f guardFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return guardFile{file, name, f.guard}, nil
}

func (f guardFS) Link(old, name string) error {
	f.guard.write("link", name, func() error { return f.FS.Link(old, name) })
	return nil
}

func (f guardFS) Rename(old, name string) error {
	f.guard.write("rename", name, func() error { return f.FS.Rename(old, name) })
	return nil
}

func (f guardFS) MkdirAll(name string, mode fs.FileMode) error {
	f.guard.write("create", name, func() error { return f.FS.MkdirAll(name, mode) })
	return nil
}

// Remove returns the error for a missing file, because pebble expects it.
func (f guardFS) Remove(name string) (absent error) {
	f.guard.write("remove", name, func() error {
		err := f.FS.Remove(name)
		if errors.Is(err, fs.ErrNotExist) {
			absent, err = err, nil
		}
		return err
	})
	return absent
}

func (f guardFS) RemoveAll(name string) error {
	f.guard.write("remove", name, func() error { return f.FS.RemoveAll(name) })
	return nil
}

type guardFile struct {
	vfs.File
	name  string
	guard *guard
}

func (f guardFile) Write(p []byte) (n int, _ error) {
	f.guard.write("write", f.name, func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	return n, nil
}

func (f guardFile) WriteAt(p []byte, at int64) (n int, _ error) {
	f.guard.write("write", f.name, func() (err error) {
		n, err = f.File.WriteAt(p, at)
		return err
	})
	return n, nil
}

func (f guardFile) Sync() error {
	f.guard.write("sync", f.name, f.File.Sync)
	return nil
}

func (f guardFile) SyncData() error {
	f.guard.write("sync", f.name, f.File.SyncData)
	return nil
}

func (f guardFile) SyncTo(length int64) (full bool, _ error) {
	f.guard.write("sync", f.name, func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, nil
}
