package record

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"
)

// packCommitted starts packing what was closed since, once the position that
// names it is committed. Before that a rotation may still have to be undone,
// and the file with it.
func (f *Files) packCommitted() {
	if !f.cfg.Compress {
		return
	}
	for f.packed < f.named {
		f.packed++
		f.pack([]int{f.packed})
	}
}

// pack compresses closed files in the background, one after the other.
func (f *Files) pack(numbers []int) {
	if len(numbers) == 0 {
		return
	}
	f.packing.Go(func() {
		for _, n := range numbers {
			if err := f.compress(f.cfg.Series.closed(n)); err != nil {
				f.mu.Lock()
				f.packErr = errors.Join(f.packErr, fmt.Errorf("record: compress %s: %w", f.path(f.cfg.Series.closed(n)), err))
				f.mu.Unlock()
				return
			}
		}
	})
}

// compress replaces a closed file by its packed form. At every moment one of
// them is there, whole and on disk.
func (f *Files) compress(name string) (err error) {
	in, err := f.cfg.FS.Open(f.path(name))
	if err != nil {
		return err
	}
	defer in.Close()
	temporary := f.path(name + zstdSuffix + NewSuffix)
	out, err := f.cfg.FS.Create(temporary, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return errors.Join(err, out.Close())
	}
	_, err = io.Copy(z, in)
	if err = errors.Join(err, z.Close(), out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := f.cfg.FS.Rename(temporary, f.path(name+zstdSuffix)); err != nil {
		return err
	}
	if err := f.syncDir(f.cfg.Dir); err != nil {
		return err
	}
	return f.cfg.FS.Remove(f.path(name))
}
