package testweb

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipped is a hardship: a quarter of the pages are compressed for clients that
// accept gzip. The expected digest is always that of the HTML.
var gzipped = hardship{
	bit: Gzip, name: "gzip",
	doc: "a quarter of the pages are compressed for clients that accept gzip",
	decorate: func(w *Web, p page, answer *answer) {
		answer.gzip = w.draw(forGzip, p)%4 == 0
	},
}

var gzipWriters = sync.Pool{New: func() any {
	writer, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return writer
}}

// compressed returns a writer that compresses its input and writes it to w. Close
// must be called; it does not close w.
func compressed(w io.Writer) io.WriteCloser {
	writer := gzipWriters.Get().(*gzip.Writer)
	writer.Reset(w)
	return pooledGzip{writer}
}

type pooledGzip struct{ *gzip.Writer }

func (g pooledGzip) Close() error {
	err := g.Writer.Close()
	g.Writer.Reset(io.Discard) // keep no reference to the response
	gzipWriters.Put(g.Writer)
	return err
}
