package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// ExportedWARC counts what an ExportWARC copied.
type ExportedWARC struct {
	Files, Records int
	Blocked        int // records that were left out
}

// ExportWARC copies the WARC files of a crawl to a directory, without the answers of blocked URLs. The argument dirs is as for
// Export; for a crawl in a directory it must be empty. No worker should run meanwhile. A file that is there already ends
// ExportWARC with an error that matches fs.ErrExist.
func (h *Handle) ExportWARC(ctx context.Context, dirs []string, to string) (sum ExportedWARC, err error) {
	ses, err := h.openStored(ctx, engine.ToLook)
	if err != nil {
		return sum, err
	}
	blocks, err := ses.plan.version.Blocks()
	blocks.Hash = ses.engine.Hasher().Fingerprint
	if err := errors.Join(err, ses.close()); err != nil {
		return sum, err
	}
	drop := func(text string) bool {
		url, err := ses.plan.canon.Parse(text)
		return err == nil && blocks.Find(ses.plan.canon.HostKey(url), url.String(), bloomstore.Fingerprint{}) != nil
	}
	switch {
	case h.location.Redis == nil:
		dirs = []string{h.location.Dir}
	case len(dirs) == 0:
		dirs = []string{h.place.Home()}
	}
	if h.location.Redis != nil {
		if dirs, err = engine.WorkersOf(dirs); err != nil {
			return sum, err
		}
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return sum, err
	}
	for _, dir := range dirs {
		files, err := os.ReadDir(filepath.Join(dir, warc.Folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return sum, err
		}
		for _, file := range files {
			if !strings.HasSuffix(file.Name(), ".warc.gz") {
				continue
			}
			if err := sum.copy(filepath.Join(dir, warc.Folder, file.Name()), filepath.Join(to, file.Name()), drop); err != nil {
				return sum, err
			}
			if ctx.Err() != nil {
				return sum, context.Cause(ctx)
			}
		}
	}
	return sum, nil
}

// copy copies a file without the answers that drop selects.
func (e *ExportedWARC) copy(from, to string, drop func(url string) bool) error {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", to, errors.Join(err, fs.ErrExist))
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	var copied, dropped int
	err = durable.Replace(vfs.Default, to, func(out io.Writer) (err error) {
		copied, dropped, err = warc.Without(out, in, drop)
		return err
	})
	if err = errors.Join(err, in.Close()); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	e.Files, e.Records, e.Blocked = e.Files+1, e.Records+copied, e.Blocked+dropped
	return nil
}
