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

// recordFiles is the output of records: record.Files, a record.Journal, or rows of a
// Postgres.
type recordFiles interface {
	record.Sink
	frontier.Output
	Close() error
}

// outputs are the outputs of a crawl besides its frontier. The store opens them, and
// the engine closes them after the store.
type outputs struct {
	dir     string
	sink    record.Sink
	archive *warc.Writer
	edges   record.EdgeSink

	c     *Config
	files io.Closer   // the files of records; nil means that there are none
	sides []io.Closer // the files of answers and of links
}

// Dir implements Output.
func (o *outputs) Dir() string { return o.dir }

// Sink implements Output.
func (o *outputs) Sink() record.Sink { return o.sink }

// Archive implements Output.
func (o *outputs) Archive() *warc.Writer { return o.archive }

// Edges implements Output.
func (o *outputs) Edges() record.EdgeSink { return o.edges }

// edgeFiles is the output of links: record.Files or a record.Journal.
type edgeFiles interface {
	record.EdgeSink
	frontier.Output
	Close() error
}

// sideOutputs are the outputs of answers and links. They are synced before the records
// that refer to them.
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

// setRecordFiles sets the files of records. It returns an output that writes to them and to
// the stream, if there is one.
func (o *outputs) setRecordFiles(files recordFiles) frontier.Output {
	o.files, o.sink = files, files
	if o.c.Stream == nil {
		return files
	}
	tee := record.Tee{Files: files, Stream: record.NewStream(o.c.Stream)}
	o.sink = tee
	return tee
}

// setRows sets the records, and the links if they are kept, as rows of a Postgres. It returns what setRecordFiles
// returns.
func (o *outputs) setRows(files rowFiles) frontier.Output {
	if o.c.Edges {
		o.edges = files.rowSink
	}
	return o.setRecordFiles(files)
}

// openSides opens the files of answers in dir if save is true, and the files of links if
// edges is true. It returns nil if both are false.
func (o *outputs) openSides(dir string, save bool, openAnswers func(warc.Config) (*warc.Writer, error),
	edges bool, openEdges func(record.Config) (edgeFiles, error)) (frontier.Output, error) {
	var all sideOutputs
	if save {
		config := o.c.Archive
		config.Dir = dir
		answers, err := openAnswers(config)
		if err != nil {
			return nil, err
		}
		o.archive, o.sides, all = answers, append(o.sides, answers), append(all, answers)
	}
	if edges {
		config := o.c.Records
		config.Dir, config.Series = dir, record.Links
		files, err := openEdges(config)
		if err != nil {
			return nil, err
		}
		o.edges, o.sides, all = files, append(o.sides, files), append(all, files)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

func (o *outputs) close() (err error) {
	if o.files != nil {
		err = o.files.Close()
	}
	for _, files := range o.sides {
		err = errors.Join(err, files.Close())
	}
	return err
}

// hasArchive reports whether a crawl has kept answers. If it has, the files of answers
// are opened even if no more answers are kept, because the store must continue to store
// the committed end of these files.
func hasArchive(position frontier.Position) bool {
	return slices.ContainsFunc(position, func(at frontier.FileLength) bool { return strings.HasPrefix(at.File, warc.Folder+"/") })
}
