package crawl

import (
	"context"
	"errors"
	"io"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// Exported counts what an Export found.
type Exported struct {
	record.Exported
	Dirs int // directories of workers; 0 if the records are rows of a Postgres
}

// Export writes the records of a crawl in Redis to w. Each URL has one line, and another
// line for each time that it was queued again after it was finished. Export reads the
// records from Postgres or from the workers' directories. The argument dirs names these
// directories, or directories that contain them; empty means l.Dir.
//
// If l names a crawl in Redis, records of URLs that are still queued are left out.
// Without l.Redis, dirs is required. Export sorts in the directory temp and needs 45
// bytes a record there. It leaves out records of blocked URLs, if l names a crawl in Redis. An empty temp means the system's directory for temporary files.
// No worker should run meanwhile.
func Export(ctx context.Context, l Location, dirs []string, temp string, w io.Writer) (sums Exported, err error) {
	if l.Redis == nil {
		if len(dirs) == 0 {
			return sums, &LocationError{Crawl: "crawl", Problem: "Export needs a crawl in Redis, or the directories of workers"}
		}
		dirs, err = engine.WorkersOf(dirs)
		if err != nil {
			return sums, err
		}
		sums.Dirs = len(dirs)
		sums.Exported, err = record.Export{Dirs: dirs, Temp: temp}.To(ctx, w)
		return sums, err
	}
	place, err := l.place()
	if err != nil {
		return sums, err
	}
	ses, err := openStored(ctx, l, place, nil, engine.ToLook)
	if err != nil {
		return sums, err
	}
	defer func() { err = errors.Join(err, ses.close()) }()
	blocks, err := ses.plan.version.Blocks()
	if err != nil {
		return sums, err
	}
	if ses.plan.Settings.Sink == sinkPostgres {
		records, err := ses.engine.CommittedRecords(ctx)
		if err != nil {
			return sums, err
		}
		return sums, engine.CopyLines(ctx, engine.Without(records, &blocks).Lines(), w)
	}
	if len(dirs) == 0 {
		dirs = []string{place.Home()}
	}
	if dirs, err = engine.WorkersOf(dirs); err != nil {
		return sums, err
	}
	sums.Dirs = len(dirs)
	all := record.Export{Dirs: dirs, Temp: temp}
	if blocks.Last() > 0 {
		all.Skip = func(line []byte) bool { return engine.Blocked(&blocks, line) != nil }
	}
	sums.Exported, err = ses.engine.Export(ctx, all, w)
	return sums, err
}
