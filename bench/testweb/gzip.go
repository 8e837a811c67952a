package testweb

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipped: a quarter of the pages are compressed for clients that accept it. The
// digest of a page is always that of its HTML.
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

// compressed returns a writer that compresses what it passes on to w. Close
// gives its buffers back.
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
