package proofs

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"net/http"
	"sync"
)

// served records the answers of a web by URL, to compare them with archives.
type served struct {
	mu      sync.Mutex
	answers map[string][]bodyServed
}

// prefixBytes is the number of bytes at the beginning of a body that are kept for the
// comparison with truncated answers.
const prefixBytes = 1 << 10

// bodyServed is a body as it was sent, with its content coding.
type bodyServed struct {
	status int
	size   int64
	sum    [sha256.Size]byte
	prefix []byte
}

// wrap returns a handler that calls the handler answer and records what answer sends.
func (s *served) wrap(answer http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := &servedWriter{ResponseWriter: w, body: bodyServed{status: http.StatusOK}, sum: sha256.New()}
		defer func() { // even if answer panics to break the connection
			s.mu.Lock()
			defer s.mu.Unlock()
			n.sum.Sum(n.body.sum[:0])
			url := "http://" + r.Host + r.RequestURI
			s.answers[url] = append(s.answers[url], n.body)
		}()
		answer.ServeHTTP(n, r)
	})
}

// has reports whether an answer for a URL had the given status and body. If cut is
// true, body is only the beginning of the answer's body, and at most prefixBytes of it
// are compared.
func (s *served) has(url string, status int, body []byte, cut bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(body)
	for _, b := range s.answers[url] {
		prefix := body[:min(len(body), len(b.prefix))]
		switch {
		case b.status != status:
		case !cut && b.size == int64(len(body)) && b.sum == sum:
			return true
		case cut && b.size >= int64(len(body)) && bytes.HasPrefix(b.prefix, prefix):
			return true
		}
	}
	return false
}

func (s *served) times(url string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.answers[url])
}

// servedWriter is an http.ResponseWriter that records what is written.
type servedWriter struct {
	http.ResponseWriter
	body bodyServed
	sum  hash.Hash
}

// Unwrap lets http.ResponseController reach the connection.
func (n *servedWriter) Unwrap() http.ResponseWriter { return n.ResponseWriter }

func (n *servedWriter) WriteHeader(status int) {
	n.body.status = status
	n.ResponseWriter.WriteHeader(status)
}

func (n *servedWriter) Write(p []byte) (int, error) {
	written, err := n.ResponseWriter.Write(p)
	n.body.size += int64(written)
	_, _ = n.sum.Write(p[:written])
	room := prefixBytes - len(n.body.prefix)
	n.body.prefix = append(n.body.prefix, p[:min(written, room)]...)
	return written, err
}
