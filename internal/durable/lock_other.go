//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package durable

import (
	"errors"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lock uses the lock of pebble, which on Windows belongs to an open file. There, a file that
// cannot be opened counts as held, too.
func lock(name string) (io.Closer, error) {
	l, err := vfs.Default.Lock(name)
	if _, file := errors.AsType[*fs.PathError](err); err != nil && !file {
		err = ErrHeld
	}
	return l, err
}

// LockedByOther returns false, because these systems do not report which process has
// locked a file.
func LockedByOther(string) bool { return false }
