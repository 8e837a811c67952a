package localstore

import (
	"errors"
	"io/fs"
	"os"
	"strings"

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

// createPrivate creates a file, in place of another of that name, that no other
// user can open, not even while it is empty. An FS knows no modes: a file on the
// disk is made before the FS opens it.
func createPrivate(filesystem vfs.FS, name string) (vfs.File, error) {
	if vfs.Root(filesystem) != vfs.Default {
		return filesystem.Create(name, vfs.WriteCategoryUnspecified)
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, privateMode)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return filesystem.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
}

// privateMode is that of files with the key of the fingerprints.
const privateMode = 0o600

// hideCard takes the rights of others from the card of a crawl that an older
// version created. In a directory that cannot be written it stays as it is.
func hideCard(filesystem vfs.FS, dir string) {
	name := filesystem.PathJoin(dir, cardFile)
	if info, err := filesystem.Stat(name); err == nil && info.Mode().Perm()&^privateMode != 0 && vfs.Root(filesystem) == vfs.Default {
		_ = os.Chmod(name, privateMode)
	}
}

// makeDir makes dir, for its owner alone, and its missing parents, durably: a
// power loss after the first answer must not take the directory itself.
func makeDir(fs vfs.FS, dir string) error {
	var parents []string
	for at := dir; ; at = fs.PathDir(at) {
		parent := fs.PathDir(at)
		parents = append(parents, parent)
		if _, err := fs.Stat(parent); err == nil || parent == at {
			break
		}
	}
	if err := fs.MkdirAll(fs.PathDir(dir), 0o755); err != nil {
		return err
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := syncDir(fs, parent); err != nil {
			return err
		}
	}
	return nil
}
