package record

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/bloomfrontier/crawler/internal/durable"
)

// packCommitted packs the files that were closed since the last call. The position that
// contains them must be committed, because a crash before the commit undoes the rotation.
func (f *Files) packCommitted() {
	if !f.cfg.Compress {
		return
	}
	for f.packed < f.synced {
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

// compress replaces a closed file by its packed form. At every moment at least one of these
// two files is complete and on disk.
func (f *Files) compress(name string) (err error) {
	in, err := f.cfg.FS.Open(f.path(name))
	if err != nil {
		return err
	}
	defer in.Close()
	err = durable.Replace(f.cfg.FS, f.path(name+zstdSuffix), func(out io.Writer) error {
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		_, err = io.Copy(z, in)
		return errors.Join(err, z.Close())
	})
	if err != nil {
		return err
	}
	return f.cfg.FS.Remove(f.path(name))
}
