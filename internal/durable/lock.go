package durable

import (
	"errors"
	"io"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrHeld reports that another caller has a lock.
var ErrHeld = errors.New("another caller has the lock")

// Lock locks a file, and creates it if there is none. It returns ErrHeld while another
// caller has the lock, in this process or in another one, by any path to the file. Other
// errors are of the file. A process that is killed loses its locks.
func Lock(filesystem vfs.FS, name string) (io.Closer, error) {
	if vfs.Root(filesystem) == vfs.Default {
		return lock(name)
	}
	l, err := filesystem.Lock(name)
	if err == syscall.EAGAIN { // of vfs.MemFS
		err = ErrHeld
	}
	return l, err
}
