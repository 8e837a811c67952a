package engine

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
)

// recordFiles is where records are written: record.Files, a record.Journal or
// rows.
type recordFiles interface {
	record.Sink
	frontier.Output
	Close() error
}

// outputs are what a crawl writes besides its frontier. A store opens them, and
// the engine closes them after the store.
type outputs struct {
	c       *Config
	dir     string
	files   io.Closer    // of records; nil means that there are none
	sink    record.Sink  // the same, and the stream
	archive *warc.Writer // nil means no answers are kept
	edges   edgeFiles    // nil means no links are kept
}

// edgeFiles are where links are written: record.Files or a record.Journal.
type edgeFiles interface {
	record.EdgeSink
	frontier.Output
	Close() error
}

// sideOutputs are synced before the records that refer to them.
type sideOutputs []frontier.Output

// Sync implements frontier.Output.
func (all sideOutputs) Sync() (position frontier.Position, err error) {
	for _, output := range all {
		part, err := output.Sync()
		if err != nil {
			return nil, err
		}
		position = append(position, part...)
	}
	return position, nil
}

// records sets the files of records, and returns the output of these and of the
// stream.
func (o *outputs) records(files recordFiles) frontier.Output {
	o.files, o.sink = files, files
	if o.c.Stream == nil {
		return files
	}
	tee := record.Tee{Files: files, Stream: record.NewStream(o.c.Stream)}
	o.sink = tee
	return tee
}

// openArchive opens the files of answers in dir.
func (o *outputs) openArchive(dir string, open func(warc.Config) (*warc.Writer, error)) (frontier.Output, error) {
	config := o.c.Archive
	config.Dir = dir
	w, err := open(config)
	if err != nil {
		return nil, err
	}
	o.archive = w
	return w, nil
}

func (o *outputs) close() (err error) {
	if o == nil {
		return nil
	}
	if o.files != nil {
		err = o.files.Close()
	}
	if o.archive != nil {
		err = errors.Join(err, o.archive.Close())
	}
	if o.edges != nil {
		err = errors.Join(err, o.edges.Close())
	}
	return err
}

// hasArchive reports whether a crawl has kept answers. Then their files are opened
// even if no more are kept, because the store must keep their committed end.
func hasArchive(position frontier.Position) bool {
	return slices.ContainsFunc(position, func(at frontier.FileLength) bool { return strings.HasPrefix(at.File, warc.Folder+"/") })
}
