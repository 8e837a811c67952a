//go:build unix

package localstore

import (
	"io"
	"os"
	"syscall"
)

// heldByOther reports whether another process has locked a file that this process can
// only read. It returns false for a file that cannot be opened.
func heldByOther(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	err = syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock)
	return err == nil && lock.Type != syscall.F_UNLCK
}
