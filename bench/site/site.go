// Package site serves a folder of files as one web site, for measurements. It reads
// each file once. After that it takes very little time compared to the crawler that
// is measured.
//
// It serves files with the content type of their extension, and index.html for a
// folder. It lists no folders, and does not notice that a file changes. Sites that
// are difficult to crawl are in package testweb.
package site

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// contentTypes are the content types of files in documentation, by extension. The
// answers of package mime would depend on files of the machine. The types have no
// charset, so that the meta elements of pages decide about it.
var contentTypes = map[string]string{
	".html": "text/html", ".htm": "text/html", ".xhtml": "application/xhtml+xml",
	".css": "text/css", ".js": "text/javascript", ".json": "application/json", ".xml": "text/xml",
	".txt": "text/plain", ".md": "text/plain", ".sh": "text/plain", ".pdf": "application/pdf",
	".gif": "image/gif", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png",
	".svg": "image/svg+xml", ".ico": "image/x-icon", ".gz": "application/gzip", ".zip": "application/zip",
}

// ContentType returns the media type of a file by the extension of its name. It
// returns application/octet-stream for an unknown extension.
func ContentType(name string) string {
	if known := contentTypes[strings.ToLower(path.Ext(name))]; known != "" {
		return known
	}
	return "application/octet-stream"
}

// Handler returns a handler that serves the files below dir. It follows symbolic
// links, also out of dir. It keeps requested files in memory, each file only once,
// even if several links lead to it.
func Handler(dir string) http.Handler { return &folder{dir: dir} }

// Packed returns a handler like Handler's that sends answers with gzip, as most
// servers do, to clients that accept it. It compresses the answer for each path once.
func Packed(dir string) http.Handler { return &folder{dir: dir, packed: true} }

// folder is a served directory.
type folder struct {
	dir    string
	packed bool
	answer sync.Map // *answer by path as requested
	body   sync.Map // []byte by file with symbolic links resolved
}

// answer is a complete response.
type answer struct {
	status int
	header http.Header // shared between requests, never changed
	body   []byte
	packed func() *answer // returns the same answer with gzip
}

func (f *folder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	a := f.find(r.URL.Path)
	if f.packed && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		a = a.packed()
	}
	header := w.Header()
	for name, values := range a.header {
		header[name] = values
	}
	w.WriteHeader(a.status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(a.body) // an error means that the client has gone
	}
}

// find returns the answer for a path. It remembers the answer if the path exists. It
// does not remember missing paths, so that a client cannot fill the memory with
// made-up ones.
func (f *folder) find(name string) *answer {
	if known, ok := f.answer.Load(name); ok {
		return known.(*answer)
	}
	a, err := f.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return text(http.StatusNotFound, "not found")
	case err != nil:
		return text(http.StatusInternalServerError, err.Error())
	}
	f.answer.Store(name, a)
	return a
}

// read makes the answer for a path.
func (f *folder) read(name string) (*answer, error) {
	// A path with a leading slash that path.Clean returns does not lead above the root.
	file := filepath.Join(f.dir, filepath.FromSlash(path.Clean("/"+name)))
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	switch slash := strings.HasSuffix(name, "/"); {
	case info.IsDir() && !slash:
		a := text(http.StatusMovedPermanently, "a folder")
		a.header["Location"] = []string{(&url.URL{Path: path.Base(name) + "/"}).String()}
		return a, nil
	case info.IsDir():
		file = filepath.Join(file, "index.html")
	case slash:
		return nil, fs.ErrNotExist
	}
	return f.load(file)
}

// load makes the answer with a file. It reads the file if it is not in memory.
func (f *folder) load(file string) (*answer, error) {
	linked := file
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil, err
	}
	body, ok := f.body.Load(file)
	if !ok {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		body, _ = f.body.LoadOrStore(file, content)
	}
	return newAnswer(http.StatusOK, ContentType(linked), body.([]byte)), nil
}

func newAnswer(status int, contentType string, body []byte) *answer {
	a := &answer{status: status, body: body, header: http.Header{
		"Content-Type":   {contentType},
		"Content-Length": {strconv.Itoa(len(body))},
	}}
	a.packed = sync.OnceValue(func() *answer {
		var small bytes.Buffer
		z := gzip.NewWriter(&small)
		_, _ = z.Write(body) // writes to a buffer do not fail
		_ = z.Close()
		packed := &answer{status: status, header: a.header.Clone(), body: small.Bytes()}
		packed.header.Set("Content-Encoding", "gzip")
		packed.header.Set("Content-Length", strconv.Itoa(small.Len()))
		return packed
	})
	return a
}

func text(status int, message string) *answer {
	return newAnswer(status, "text/plain", []byte(message+"\n"))
}
