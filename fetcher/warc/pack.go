package warc

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base32"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/bloomfrontier/crawler/fetcher/get"
)

// Packed has the compressed records of an answer and its request, ready for
// Writer.Append. A Packed that is not appended needs no release.
type Packed struct {
	members  *bytes.Buffer // nil after Append
	location Location      // set by Append
}

// packer is a pool of compressors of one level.
type packer struct{ sync.Pool }

func newPacker(level int) *packer {
	return &packer{sync.Pool{New: func() any {
		z, _ := gzip.NewWriterLevel(nil, level) // the levels below are valid
		return z
	}}}
}

// The packers for the kinds of records. Each is the cheapest one for its kind
// (BenchmarkLevel in bench/warccheck).
var (
	// text is for types that compress well. Level 3 would save a twentieth of the
	// bytes and take a sixth more time.
	text = newPacker(gzip.BestSpeed)
	// dense is for types that are mostly compressed already. The result is as small
	// as with level 1, and takes a sixth of the time.
	dense = newPacker(gzip.HuffmanOnly)
	// stored is for bodies with a content coding, because they would not become smaller.
	// It is also for small blocks, such as most requests. Compressing them would save too
	// few bytes for the time that it takes.
	stored = newPacker(gzip.NoCompression)
)

// smallBlock is a length in bytes. Blocks of up to this length are not compressed, whatever
// their type is.
const smallBlock = 1 << 10

var rooms = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxRoom is the maximum capacity of a buffer that is kept for the next Packed.
const maxRoom = 1 << 20

func newPacked() *Packed {
	room := rooms.Get().(*bytes.Buffer)
	room.Reset()
	return &Packed{members: room}
}

// Len returns how many bytes p holds. It is 0 after p was appended.
func (p *Packed) Len() int {
	if p.members == nil {
		return 0
	}
	return p.members.Len()
}

func (p *Packed) release() {
	if p.members.Cap() <= maxRoom {
		rooms.Put(p.members)
	}
	p.members = nil
}

// Earlier names an answer that is in a record of another file or crawl, and which a record of the type revisit refers to (WARC 1.1,
// section 6.7).
type Earlier struct {
	URL string
	At  time.Time // its WARC-Date
}

// Profiles of records of the type revisit.
const (
	notModified = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
	samePayload = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
)

// PackRevisit is like Pack for an answer that needs no content in the archive, because an earlier one has it: an answer 304, or one
// whose body is that of the earlier answer. The record has the header of the answer. A body that was sent in chunks is packed as by
// Pack, because such a record would need its digest.
func PackRevisit(url string, wire *get.Wire, earlier Earlier) (*Packed, error) {
	body, _ := payload(wire.Response)
	revisit := header{kind: "revisit", profile: samePayload, payload: body, refersTo: &earlier}
	switch status := bytes.Fields(wire.Response); {
	case len(status) > 1 && string(status[1]) == "304":
		revisit.profile, revisit.payload = notModified, nil
	case body == nil:
		return Pack(url, wire)
	}
	return pack(url, wire, revisit, wire.Response[:len(wire.Response)-len(body)])
}

// Pack packs two records: the answer to a request for url, and the request. It keeps no
// reference to wire. Packing takes most of the time of this package. Any number of
// goroutines may call Pack at once.
func Pack(url string, wire *get.Wire) (*Packed, error) {
	return pack(url, wire, header{kind: "response"}, wire.Response)
}

// pack packs a record of an answer with the given block, and one of the request.
func pack(url string, wire *get.Wire, response header, block []byte) (*Packed, error) {
	p := newPacked()
	response.content, response.id, response.url, response.at, response.remote = "application/http;msgtype=response", newID(), url, wire.Started, wire.Remote
	if wire.Truncated {
		response.truncated = "length"
	}
	if wire.Cut {
		response.truncated = "disconnect"
	}
	if wire.CookiesRedacted {
		response.redacted = "Set-Cookie"
	}
	body, compressor := payload(wire.Response)
	if response.refersTo == nil {
		response.payload = body
	}
	if err := p.add(&response, block, compressor); err != nil {
		return nil, err
	}
	request := header{kind: "request", content: "application/http;msgtype=request", id: newID(), url: url, at: wire.Started,
		remote: wire.Remote, concurrent: response.id, redacted: strings.Join(wire.Redacted, ", ")}
	if err := p.add(&request, wire.Request, text); err != nil {
		return nil, err
	}
	return p, nil
}

// packInfo makes the first record of a file.
func packInfo(info Info, file string, now time.Time) (*Packed, error) {
	block := appendFields(nil, [][2]string{
		{"software", oneLine(info.Software)},
		{"format", "WARC File Format 1.1"},
		{"conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
		{"robots", oneLine(info.Robots)},
		{"http-header-user-agent", oneLine(info.UserAgent)},
		{"isPartOf", oneLine(info.IsPartOf)},
		{"operator", oneLine(info.Operator)},
	})
	p := newPacked()
	return p, p.add(&header{kind: "warcinfo", content: "application/warc-fields", id: newID(), at: now, file: file}, block, text)
}

// add appends one record as a gzip member of its own. It compresses the record with
// compressor, unless the block is small.
func (p *Packed) add(h *header, block []byte, compressor *packer) error {
	if len(block) <= smallBlock {
		compressor = stored
	}
	z := compressor.Get().(*gzip.Writer)
	defer compressor.Put(z)
	z.Reset(p.members)
	var room [1 << 10]byte
	for _, part := range [][]byte{h.append(room[:0], block), block, []byte("\r\n\r\n")} {
		if _, err := z.Write(part); err != nil {
			return err
		}
	}
	return z.Close()
}

// header has the fields of a record's header.
type header struct {
	kind, content string
	id            string
	url           string
	at            time.Time
	remote        netip.Addr
	concurrent    string // id of the record of the answer to the same request
	file          string
	truncated     string
	redacted      string // names of headers whose values are replaced
	payload       []byte // what the payload digest is computed of; nil means no payload digest
	profile       string // of a revisit
	refersTo      *Earlier
}

// append appends the header of a record to b. The header contains the length and the digest
// of block.
func (h *header) append(b, block []byte) []byte {
	var address, payloadDigest, earlierURL, earlierDate string
	if h.refersTo != nil {
		earlierURL, earlierDate = h.refersTo.URL, date(h.refersTo.At)
	}
	if h.remote.IsValid() {
		address = h.remote.Unmap().WithZone("").String()
	}
	if h.payload != nil {
		payloadDigest = digest(h.payload)
	}
	b = appendFields(append(b, "WARC/1.1\r\n"...), [][2]string{
		{"WARC-Type", h.kind},
		{"WARC-Record-ID", h.id},
		{"WARC-Date", date(h.at)},
		{"WARC-Target-URI", h.url},
		{"WARC-IP-Address", address},
		{"WARC-Concurrent-To", h.concurrent},
		{"WARC-Filename", h.file},
		{"WARC-Profile", h.profile},
		{"WARC-Refers-To-Target-URI", earlierURL},
		{"WARC-Refers-To-Date", earlierDate},
		{"WARC-Truncated", h.truncated},
		{"X-Redacted-Headers", h.redacted},
		{"WARC-Block-Digest", digest(block)},
		{"WARC-Payload-Digest", payloadDigest},
		{"Content-Type", h.content},
		{"Content-Length", strconv.Itoa(len(block))},
	})
	return append(b, "\r\n"...)
}

func date(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// oneLine replaces each run of white space by one space.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// appendFields appends lines with names and values, except those without a value.
func appendFields(b []byte, fields [][2]string) []byte {
	for _, field := range fields {
		if value := field[1]; value != "" {
			b = append(append(append(append(b, field[0]...), ": "...), value...), "\r\n"...)
		}
	}
	return b
}

// digest returns the SHA-1 of b in the form that indexes of archives use. A SHA-1 is enough
// to find equal bodies, but does not protect against forgery. record.Record has a SHA-256.
func digest(b []byte) string {
	sum := sha1.Sum(b)
	return "sha1:" + base32.StdEncoding.EncodeToString(sum[:])
}

// newID returns a record's id: a random UUID.
func newID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("<urn:uuid:%x-%x-%x-%x-%x>", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// payload returns the body from which the payload digest is computed, and the best packer for
// the answer. If the answer has a transfer coding, or if its header has no end, the body is
// nil, and the record has no payload digest. According to the standard, the digest is computed
// from the body without the transfer coding, but most tools compute it with the coding. A
// record without a payload digest is correct for all of them.
func payload(answer []byte) (body []byte, compressor *packer) {
	compressor, framed := text, false
	for line := range bytes.Lines(answer) {
		answer = answer[len(line):]
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			if framed {
				return nil, compressor
			}
			return answer, compressor
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch value = bytes.TrimSpace(value); strings.ToLower(string(bytes.TrimSpace(name))) {
		case "transfer-encoding":
			framed = true
		case "content-encoding":
			if !strings.EqualFold(string(value), "identity") {
				compressor = stored
			}
		case "content-type":
			if compressor == text && isDense(strings.ToLower(string(value))) {
				compressor = dense
			}
		}
	}
	return nil, compressor
}

// isDense reports whether bodies of this content type are compressed already.
func isDense(contentType string) bool {
	kind, form, _ := strings.Cut(contentType, "/")
	switch kind {
	case "audio", "video", "font":
		return true
	case "image":
		return !strings.HasPrefix(form, "svg")
	case "application":
		return strings.HasPrefix(form, "zip") || strings.HasPrefix(form, "gzip") || strings.HasPrefix(form, "pdf")
	}
	return false
}
