// Package site serves a folder of files as one web site, for measurements. It reads
// each file once. After that, it takes very little time compared to the measured
// crawler.
//
// It serves files with the content type of their extension, and index.html for a
// folder. It does not list folders, and does not notice when a file changes. Package
// testweb has sites that are difficult to crawl.
package site

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"maps"
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
// charset, so that the meta elements of a page determine its charset.
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

// Handler returns a handler that serves the files below dir. It follows symbolic links,
// even those that lead out of dir. It keeps requested files in memory, and each file
// only once even if several links lead to it.
func Handler(dir string) http.Handler { return &folder{dir: dir} }

// Packed returns a handler like Handler. In addition, it compresses answers with gzip
// for clients that accept it, as most servers do. It compresses the answer for each
// path once.
func Packed(dir string) http.Handler { return &folder{dir: dir, packed: true} }

type folder struct {
	dir     string
	packed  bool
	answers sync.Map // *answer by whether it is compressed and requested path; only of paths that exist
	bodies  sync.Map // []byte by file name without symbolic links
}

// answer is a complete response.
type answer struct {
	status int
	header http.Header // shared between requests, never changed
	body   []byte
}

func (f *folder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	a := f.find(r.URL.Path, f.packed && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"))
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(a.body) // an error means that the client closed the connection
	}
}

func (f *folder) find(name string, packed bool) *answer {
	type key struct {
		packed bool
		name   string
	}
	if known, ok := f.answers.Load(key{packed, name}); ok {
		return known.(*answer)
	}
	a, err := f.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a = text(http.StatusNotFound, "not found")
	case err != nil:
		a = text(http.StatusInternalServerError, err.Error())
	}
	if packed {
		var small bytes.Buffer
		z := gzip.NewWriter(&small)
		_, _ = z.Write(a.body) // writes to a buffer do not fail
		_ = z.Close()
		a.body = small.Bytes()
		a.header["Content-Encoding"] = []string{"gzip"}
	}
	a.header["Content-Length"] = []string{strconv.Itoa(len(a.body))}
	if err == nil {
		f.answers.Store(key{packed, name}, a)
	}
	return a
}

// read makes the answer for a path. It reads the file if it is not in memory.
func (f *folder) read(name string) (*answer, error) {
	// path.Clean removes each leading /.. of a path, so file is below f.dir.
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
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil, err
	}
	body, ok := f.bodies.Load(target)
	if !ok {
		content, err := os.ReadFile(target)
		if err != nil {
			return nil, err
		}
		body, _ = f.bodies.LoadOrStore(target, content)
	}
	return &answer{http.StatusOK, http.Header{"Content-Type": {ContentType(file)}}, body.([]byte)}, nil
}

func text(status int, message string) *answer {
	return &answer{status, http.Header{"Content-Type": {"text/plain"}}, []byte(message + "\n")}
}
