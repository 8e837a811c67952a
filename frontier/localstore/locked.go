package localstore

import (
	"errors"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Locked reports whether a process had the store in dir open a moment ago. It takes the
// lock for an instant: a process that opens the store at that moment gets ErrLocked. A nil
// fsys means the operating system's.
func Locked(fsys vfs.FS, dir string) (bool, error) {
	if fsys == nil {
		fsys = vfs.Default
	}
	lock, err := fsys.Lock(fsys.PathJoin(dir, lockFile))
	if _, ok := errors.AsType[*fs.PathError](err); ok { // the file failed, not the lock
		return false, err
	}
	if err != nil {
		return true, nil
	}
	return false, lock.Close()
}
