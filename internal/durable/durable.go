// Package durable has the file operations with which the stores and outputs of a crawl survive
// a crash. It opens a growing file at its committed length, replaces other files atomically,
// and syncs directories. It also locks files.
//
// It owns these steps and their order. It does not own the format of a file, its name, or its
// rotation.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// NewSuffix is the end of the name of a new file that will replace another. A crash can
// leave such a file behind. This file can be removed.
const NewSuffix = ".new"

// MissingError reports a file that is shorter than its committed length.
type MissingError struct {
	Name            string
	Size, Committed int64 // bytes
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s has %d bytes, but %d were committed: its end is missing", e.Name, e.Size, e.Committed)
}

// SyncDir makes the file names in a directory durable.
func SyncDir(filesystem vfs.FS, name string) error {
	dir, err := filesystem.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// MkdirAll creates a directory and its missing parents. Only the owner can use the directory.
// MkdirAll syncs the parents, so that a power loss does not remove the directory.
func MkdirAll(filesystem vfs.FS, dir string) error {
	var parents []string
	for at := dir; ; at = filesystem.PathDir(at) {
		parent := filesystem.PathDir(at)
		parents = append(parents, parent)
		if _, err := filesystem.Stat(parent); err == nil || parent == at {
			break
		}
	}
	if err := filesystem.MkdirAll(filesystem.PathDir(dir), 0o755); err != nil {
		return err
	}
	if err := filesystem.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := SyncDir(filesystem, parent); err != nil {
			return err
		}
	}
	return nil
}

// OpenAt opens a file, or creates it, and cuts it to its committed length. The caller
// must sync the directory. OpenAt returns a *MissingError if the file is shorter.
func OpenAt(filesystem vfs.FS, name string, length int64) (vfs.File, error) {
	file, err := filesystem.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() < length {
		err = &MissingError{name, info.Size(), length}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if info.Size() > length {
		if file, err = cut(filesystem, file, name, length); err != nil {
			return nil, fmt.Errorf("cut %s to %d bytes: %w", name, length, err)
		}
	}
	return file, nil
}

// cut shortens an open file. If the file system cannot truncate, cut copies the file.
func cut(filesystem vfs.FS, file vfs.File, name string, length int64) (vfs.File, error) {
	if filesystem == vfs.Default {
		if err := os.Truncate(name, length); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return file, nil
	}
	err := Replace(filesystem, name, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(file, 0, length))
		return err
	})
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return filesystem.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
}

// Replace replaces the file with this name by a new file. The function write must write
// the content of the new file. After a crash the file is either the old or the new one,
// and is complete.
func Replace(filesystem vfs.FS, name string, write func(io.Writer) error) error {
	return replace(filesystem, name, filesystem.Create, write)
}

// ReplacePrivate is like Replace, but other users cannot read the new file.
func ReplacePrivate(filesystem vfs.FS, name string, write func(io.Writer) error) error {
	return replace(filesystem, name, func(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
		return createPrivate(filesystem, name, category)
	}, write)
}

func replace(filesystem vfs.FS, name string, create func(string, vfs.DiskWriteCategory) (vfs.File, error), write func(io.Writer) error) error {
	file, err := create(name+NewSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err = write(file); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = filesystem.Rename(name+NewSuffix, name)
	}
	if err != nil {
		_ = filesystem.Remove(name + NewSuffix)
		return err
	}
	return SyncDir(filesystem, filesystem.PathDir(name))
}

// PrivateMode is the mode of files that other users cannot read.
const PrivateMode = 0o600

// createPrivate creates a file that no other user can open, not even while it is empty.
// It first removes the file with the same name, if there is one. A vfs.FS cannot set
// modes. So package os creates a file on disk, and then the FS opens it.
func createPrivate(filesystem vfs.FS, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if vfs.Root(filesystem) != vfs.Default {
		return filesystem.Create(name, category)
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, PrivateMode)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return filesystem.OpenReadWrite(name, category)
}
