package serve

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/serve/idempotency"
)

const (
	maxLine    = 16 << 10         // bytes; a longer line is refused
	maxRefused = 20               // refused lines that the answer has
	chunkTime  = 30 * time.Second // in which the client sends a chunk
)

// Upload is the answer to an upload.
type Upload struct {
	Counts
	Lines   uint64        `json:"lines"`
	SHA256  string        `json:"sha256" doc:"of the body, in hexadecimal digits"`
	Refusal []RefusedLine `json:"first_refused,omitempty" doc:"the first refused lines, at most 20"`
}

// RefusedLine is a line of an upload that was refused.
type RefusedLine struct {
	Line    uint64 `json:"line" doc:"from 1"`
	Message string `json:"message"`
}

// progress is what is stored about an upload after each chunk.
type progress struct {
	Upload
	Chunks int    `json:"chunks"`
	Digest []byte `json:"digest"` // SHA-256 of the body up to the end of these chunks
	Done   bool   `json:"done"`
}

// uploads are the uploads that are under way.
type uploads struct {
	mu       sync.Mutex
	underWay map[idempotency.ID]bool
}

// begin returns false if an upload with this ID is under way.
func (u *uploads) begin(id idempotency.ID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.underWay[id]
	u.underWay[id] = true
	return !before
}

func (u *uploads) end(id idempotency.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.underWay, id)
}

// uploadKey is the key of the note with the progress of an upload.
func uploadKey(id idempotency.ID) string { return "upload/" + idText(id) }

// routeUpload adds the route of uploads.
func (s *Server) routeUpload() {
	op := huma.Operation{
		OperationID: "upload-seeds", Method: http.MethodPost, Path: "/v1/crawls/{crawl}/uploads", Tags: []string{"seeds"},
		Summary: "Add any number of seeds",
		Description: "A line of the body is a seed, a JSON string, or a JSON object with the member url. Each 1,000 lines are one chunk. " +
			"A repeat of an upload that was cut off goes on after the chunks that are stored.",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/x-ndjson": {Schema: &huma.Schema{Type: huma.TypeString}}, "text/plain": {Schema: &huma.Schema{Type: huma.TypeString}},
		}},
		Parameters: []*huma.Param{
			{Name: "crawl", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[A-Za-z0-9._-]+$", MaxLength: new(64)}},
			{Name: "Content-Digest", In: "header", Schema: &huma.Schema{Type: huma.TypeString}, Description: "of RFC 9530, with sha-256; the whole upload must have it"},
		},
		Responses: s.json("200", reflect.TypeFor[Upload]()),
	}
	s.describe(op, Write, upload, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, replayed, err := s.upload(w, r)
		if err != nil {
			s.problemOf(r.Context(), err).write(w)
			return
		}
		if replayed {
			w.Header().Set(idempotency.Replayed, "true")
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.Upload) // the client is gone, and repeats the upload
	}))
}

// upload reads the body of an upload and adds its seeds, chunk by chunk.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) (p progress, replayed bool, err error) {
	key, err := idempotency.ParseKey(r.Header.Values(idempotency.Header))
	if err != nil {
		return p, false, newProblem("syntax", err.Error())
	}
	m, h, err := s.fleet.open(r.Context(), r.PathValue("crawl"))
	if err != nil {
		return p, false, err
	}
	want, err := digestOf(r.Header.Values("Content-Digest"))
	if err != nil {
		return p, false, err
	}
	caller := callerOf(r.Context()).Name
	id := uploadID(caller, m.copy().Creation, key)
	if !s.uploads.begin(id) {
		return p, false, newProblem("under-way", "")
	}
	defer s.uploads.end(id)
	if err := s.once.Claim(r.Context(), caller, r.Method, r.URL.Path, key); err != nil {
		return p, false, err
	}
	if _, err = getNote(r.Context(), s.ledger, uploadKey(id), &p); err != nil {
		return p, false, err
	}
	u := &uploading{server: s, member: m, handle: h, id: id, stored: p, sum: sha256.New(), control: http.NewResponseController(w)}
	defer func() {
		if u.release != nil {
			err = errors.Join(err, u.release())
		}
	}()
	u.body = bufio.NewReaderSize(r.Body, maxLine)
	if err = u.run(r.Context(), want); !p.Done {
		s.fleet.runner.wake(m)
	}
	return u.stored, p.Done, err
}

// uploadID returns the ID of an upload. A crawl that was deleted and created again has other uploads.
func uploadID(caller, creation, key string) idempotency.ID {
	text, _ := json.Marshal([]string{"upload", caller, creation, key}) // strings cannot fail
	return sha256.Sum256(text)
}

// digestOf returns the SHA-256 in the field Content-Digest of RFC 9530, or nil if it has none.
func digestOf(values []string) ([]byte, error) {
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		text, found := strings.CutPrefix(strings.TrimSpace(part), "sha-256=:")
		if !found {
			continue
		}
		sum, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(text, ":"))
		if err != nil || len(sum) != sha256.Size || !strings.HasSuffix(text, ":") {
			return nil, newProblem("syntax", "Content-Digest: want sha-256=:BASE64:")
		}
		return sum, nil
	}
	return nil, nil
}

// uploading is an upload that is under way.
type uploading struct {
	server  *Server
	member  *member
	handle  *crawl.Handle
	id      idempotency.ID
	stored  progress  // of this request or an earlier one
	sum     hash.Hash // of the body so far
	body    *bufio.Reader
	control *http.ResponseController
	chunks  int          // read so far
	release func() error // closes a crawl that does not run; nil until the first chunk is added
}

// run reads the whole body. The chunks that are stored are only compared.
func (u *uploading) run(ctx context.Context, want []byte) error {
	for ended := false; !ended; {
		_ = u.control.SetReadDeadline(time.Now().Add(chunkTime)) // there is none without a connection
		lines, err := u.read()
		if ended = errors.Is(err, io.EOF); err != nil && !ended {
			return newProblem("syntax", "the body ended early: repeat the request with the same key")
		}
		if len(lines) == 0 {
			break
		}
		u.chunks++
		switch {
		case u.chunks == u.stored.Chunks && string(u.sum.Sum(nil)) != string(u.stored.Digest):
			return newProblem("other-payload", "")
		case u.chunks <= u.stored.Chunks:
		case u.stored.Done:
			return newProblem("other-payload", "")
		default:
			if err := u.add(ctx, lines, ended); err != nil {
				return err
			}
		}
	}
	sum := u.sum.Sum(nil)
	switch {
	case u.chunks < u.stored.Chunks:
		return newProblem("other-payload", "")
	case want != nil && string(want) != string(sum):
		return newProblem("digest", "its seeds were added nevertheless")
	case u.stored.Done:
		return nil
	}
	u.stored.Done, u.stored.SHA256 = true, hex.EncodeToString(sum)
	if err := putNote(ctx, u.server.ledger, uploadKey(u.id), u.stored, keyTTL); err != nil {
		return err
	}
	crash.Point("serve upload done")
	_ = u.control.SetWriteDeadline(time.Now().Add(streamWrite))
	return nil
}

// read reads the lines of a chunk. A line that is too long is nil. The error is io.EOF if the body has ended.
func (u *uploading) read() (lines []*string, err error) {
	for len(lines) < maxSeeds {
		text, err := u.body.ReadSlice('\n')
		u.sum.Write(text)
		long := false
		for ; errors.Is(err, bufio.ErrBufferFull); long = true {
			text, err = u.body.ReadSlice('\n')
			u.sum.Write(text)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		switch line := strings.TrimSpace(string(text)); {
		case long:
			lines = append(lines, nil)
		case err == nil || line != "":
			lines = append(lines, &line)
		}
		if err != nil {
			return lines, err
		}
	}
	_, err = u.body.Peek(1)
	return lines, err
}

// add adds the seeds of a chunk, and stores the progress.
func (u *uploading) add(ctx context.Context, lines []*string, last bool) error {
	if err := u.server.ledger.valid(ctx); err != nil {
		return err
	}
	var seeds []string
	var at []uint64 // lines
	next := u.stored
	next.Refusal = append([]RefusedLine(nil), next.Refusal...)
	refuse := func(line uint64, message string) {
		if next.Refused++; len(next.Refusal) < maxRefused {
			next.Refusal = append(next.Refusal, RefusedLine{line, message})
		}
	}
	for _, line := range lines {
		next.Lines++
		if line == nil {
			refuse(next.Lines, fmt.Sprintf("the line has more than %d bytes", maxLine))
			continue
		}
		seed, err := seedOf(*line)
		switch {
		case err != nil:
			refuse(next.Lines, err.Error())
		case seed != "":
			seeds, at = append(seeds, seed), append(at, next.Lines)
		}
	}
	if u.release == nil && !u.member.copy().Run { // it need not be opened for each chunk
		var err error
		if u.release, err = u.handle.Keep(ctx); err != nil {
			return err
		}
	}
	if len(seeds) > 0 {
		answers, err := offer(ctx, u.handle, u.id, u.chunks, seeds, last)
		if err != nil {
			return err
		}
		var counts Counts
		counts.add(answers)
		next.Added, next.Seen = next.Added+counts.Added, next.Seen+counts.Seen
		for i, a := range answers {
			if a.Answer != "added" && a.Answer != "seen" {
				refuse(at[i], a.Message)
			}
		}
	}
	crash.Point("serve chunk added")
	next.Chunks, next.Digest = u.chunks, u.sum.Sum(nil)
	if err := putNote(ctx, u.server.ledger, uploadKey(u.id), next, keyTTL); err != nil {
		return err
	}
	crash.Point("serve chunk stored")
	u.stored = next
	u.server.fleet.runner.wake(u.member)
	return nil
}

// seedOf returns the seed of a line; an empty line has none.
func seedOf(line string) (string, error) {
	var object struct {
		URL *string `json:"url"`
	}
	var seed string
	switch {
	case strings.HasPrefix(line, "{"):
		if err := json.Unmarshal([]byte(line), &object); err != nil || object.URL == nil {
			return "", errors.New("the line is no JSON object with a url")
		}
		return *object.URL, nil
	case strings.HasPrefix(line, `"`):
		if err := json.Unmarshal([]byte(line), &seed); err != nil {
			return "", errors.New("the line is no JSON string")
		}
		return seed, nil
	}
	return line, nil
}
