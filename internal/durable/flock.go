package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// lock uses flock(2), because its locks belong to an open file. The locks of vfs.Default
// belong to the process and to the text of the path, so one process can take such a lock
// twice by two paths.
func lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return held{f}, nil
}

// held is a locked file.
type held struct{ file *os.File }

// Close unlocks the file first, because a child process that was forked a moment ago can
// still have the file open.
func (h held) Close() error { return errors.Join(flock(h.file, syscall.LOCK_UN), h.file.Close()) }

// flock changes the lock of an open file.
func flock(f *os.File, how int) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), how); err {
		case syscall.EINTR:
		case nil:
			return nil
		case syscall.EWOULDBLOCK:
			return ErrHeld
		default:
			return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}

// LockedByOther reports whether another caller has locked a file. The process needs only the
// permission to read the file. LockedByOther returns false for a file that cannot be opened.
// LockedByOther holds a shared lock for a moment. During this moment, a call of Lock fails.
func LockedByOther(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(flock(f, syscall.LOCK_SH|syscall.LOCK_NB), ErrHeld)
}
