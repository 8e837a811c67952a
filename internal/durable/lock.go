package durable

import (
	"errors"
	"io"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrHeld reports that another caller has a lock.
var ErrHeld = errors.New("another caller has the lock")

// Lock locks a file, and creates it if there is none. It returns ErrHeld if another
// caller, in this process or in another one, has locked the file by any path. Any other
// error means that the file cannot be locked at all. A process that is killed loses its
// locks.
func Lock(filesystem vfs.FS, name string) (io.Closer, error) {
	if vfs.Root(filesystem) == vfs.Default {
		return lock(name)
	}
	l, err := filesystem.Lock(name)
	if err == syscall.EAGAIN { // vfs.MemFS returns it if the lock is held
		err = ErrHeld
	}
	return l, err
}
