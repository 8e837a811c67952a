package localstore

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/internal/durable"
)

// markerFS works around a fault of pebble v2.1.7 (upstream #5825): pebble moves the
// marker that names its manifest, but does not sync the directory first. After a
// power loss, the marker can therefore name a manifest that is not on disk.
// markerFS syncs the directory before a marker is created or removed.
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
	return durable.SyncDir(fs.FS, fs.PathDir(name))
}
