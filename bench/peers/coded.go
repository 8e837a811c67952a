package main

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// coded serves what plain does with gzip, as most servers do, to whoever takes
// it. Each answer is packed once.
func coded(plain http.Handler) http.Handler {
	var packed sync.Map // path -> *answer
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			plain.ServeHTTP(w, r)
			return
		}
		known, ok := packed.Load(r.URL.Path)
		if !ok {
			a := &answer{header: make(http.Header), status: http.StatusOK}
			plain.ServeHTTP(a, r)
			a.pack()
			known, _ = packed.LoadOrStore(r.URL.Path, a)
		}
		known.(*answer).write(w)
	})
}

// answer is a http.ResponseWriter that keeps what is written.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *answer) pack() {
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	_, _ = z.Write(a.body.Bytes()) // into memory
	_ = z.Close()
	a.body = small
	a.header = a.header.Clone() // its values belong to plain
	a.header.Set("Content-Encoding", "gzip")
	a.header.Set("Content-Length", strconv.Itoa(small.Len()))
}

func (a *answer) write(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // whoever goes away misses it
}
