package testweb

import (
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// types is a hardship: links to bodies other than HTML. A crawler that wants only HTML
// does not have to read them.
var types = hardship{
	bit: Types, name: "types",
	doc: "3 % of the pages are PDF files or images",
	leaves: []leaf{
		{16, ofType("application/pdf", "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")},
		{16, ofType("image/png", "\x89PNG\r\n\x1a\n")},
	},
}

func ofType(contentType, magic string) *fate {
	return &fate{
		name: contentType, outcome: "type", status: http.StatusOK,
		answer: func(_ *Web, _ page, _ int, answer *answer) {
			answer.contentType = contentType
			answer.body = func(dst []byte) []byte {
				dst = append(dst, magic...)
				return append(dst, make([]byte, 4096)...)
			}
		},
	}
}

// huge is a hardship: up to eight pages of the whole web are longer than
// Config.MaxBodyBytes. A correct crawl reads only the first Config.MaxBodyBytes of each.
var huge = hardship{
	bit: Huge, name: "huge",
	doc: "a few pages are longer than the limit of a body",
	slots: []slot{
		func(w *Web, host int) *fate {
			if every := 1 + w.shape.hosts()/8; host%every == every/2 {
				return fateHuge
			}
			return nil
		},
	},
}

var fateHuge = &fate{
	name: "huge", outcome: "ok", status: http.StatusOK, truncated: true,
	answer: func(w *Web, _ page, _ int, answer *answer) { answer.size = w.hugeBytes() },
}

// hugeBytes returns the size of huge pages.
func (w *Web) hugeBytes() int64 { return w.cfg.MaxBodyBytes + w.cfg.MaxBodyBytes/10 }

// gzipped is a hardship: a quarter of the pages are compressed for clients that accept
// gzip. The expected digest is always that of the uncompressed HTML.
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

// deep is a hardship: of the pages with child pages, one in sixteen has its links inside
// 600 nested elements. The parser of golang.org/x/net/html accepts at most 512 nested
// elements.
var deep = hardship{
	bit: Deep, name: "deep",
	doc: "pages whose links are below 600 nested elements",
}

const deepElements = 600

func (w *Web) isDeep(p page) bool {
	return w.has(Deep) && p.index > 0 && w.shape.inner(p) && w.draw(forDeep, p)%16 == 0
}
