package warc_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/base32"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/warc"
)

func sha(b string) string {
	sum := sha1.Sum([]byte(b))
	return "sha1:" + base32.StdEncoding.EncodeToString(sum[:])
}

// packed returns the warcinfo, response and request records of one exchange.
func packed(t testing.TB, url string, wire *get.Wire) [3]kept {
	t.Helper()
	disk := vfs.NewMem()
	w := must(warc.Open(warc.Config{Dir: dir, FS: disk, Info: warc.Info{
		Software: "crawler/1.2", UserAgent: "bot\r\nsoftware: evil", Robots: "obey", IsPartOf: "my crawl"}}, nil))
	p, err := warc.Pack(url, wire)
	if err != nil {
		t.Fatal(err)
	}
	place := must(w.Append(p))
	must(w.Sync())
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	all := read(t, disk, "crawl-")
	if len(all) != 3 || all[0].kind() != "warcinfo" || all[1].kind() != "response" || all[2].kind() != "request" || all[1].location != place {
		t.Fatalf("records %+v, want warcinfo, response and request, with the response at %+v", all, place)
	}
	return [3]kept(all)
}

// TestRecordsInFile checks each field of each record, and that the octets are
// unchanged.
func TestRecordsInFile(t *testing.T) {
	const url = "https://example.org/a?b=%20c"
	request, head, body := "GET /a?b=%20c HTTP/1.1\r\nHost: example.org\r\n\r\n", "HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", "b\x00\xff\r\n\r\n"
	all := packed(t, url, &get.Wire{Request: []byte(request), Response: []byte(head + body), Truncated: true,
		Remote: netip.MustParseAddr("::ffff:192.0.2.7"), Started: time.Date(2026, 2, 3, 4, 5, 6, 7_890_000, time.FixedZone("", 3600))})
	id := regexp.MustCompile(`^<urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}>$`)
	seen := make(map[string]bool)
	for _, k := range all {
		if text := k.field["WARC-Record-ID"]; !id.MatchString(text) || seen[text] {
			t.Errorf("the record of type %s has the id %q, want a new UUID", k.kind(), text)
		}
		seen[k.field["WARC-Record-ID"]] = true
	}
	response, sent := all[1], all[2]
	for name, c := range map[string]struct {
		got  kept
		want map[string]string
	}{
		"response": {response, map[string]string{
			"WARC-Target-URI": url, "WARC-Date": "2026-02-03T03:05:06.007Z", "WARC-IP-Address": "192.0.2.7", "WARC-Truncated": "length",
			"Content-Type": "application/http;msgtype=response", "WARC-Block-Digest": sha(head + body), "WARC-Payload-Digest": sha(body)}},
		"request": {sent, map[string]string{
			"WARC-Target-URI": url, "WARC-Date": "2026-02-03T03:05:06.007Z", "WARC-IP-Address": "192.0.2.7",
			"WARC-Concurrent-To": response.field["WARC-Record-ID"],
			"Content-Type":       "application/http;msgtype=request", "WARC-Block-Digest": sha(request)}},
	} {
		for _, always := range []string{"WARC-Type", "WARC-Record-ID", "Content-Length"} {
			c.want[always] = c.got.field[always]
		}
		for field, want := range c.want {
			if c.got.field[field] != want {
				t.Errorf("%s: %s is %q, want %q", name, field, c.got.field[field], want)
			}
		}
		if len(c.got.field) != len(c.want) {
			t.Errorf("%s: fields %v, want %v", name, c.got.field, c.want)
		}
	}
	if string(response.block) != head+body || string(sent.block) != request {
		t.Errorf("response %q, request %q, want %q, %q", response.block, sent.block, head+body, request)
	}
	info := all[0]
	want := "software: crawler/1.2\r\nformat: WARC File Format 1.1\r\n" +
		"conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n" +
		"robots: obey\r\nhttp-header-user-agent: bot software: evil\r\nisPartOf: my crawl\r\n"
	if string(info.block) != want || info.field["Content-Type"] != "application/warc-fields" || "warc/"+info.field["WARC-Filename"] != info.location.File {
		t.Errorf("warcinfo %v\n%s\nwant\n%s", info.field, info.block, want)
	}
}

// TestPayloadDigest: the payload digest is that of the body as it was sent. An answer with
// a transfer coding has no payload digest.
func TestPayloadDigest(t *testing.T) {
	for name, c := range map[string]struct {
		answer, want string
		none         bool
	}{
		"body":              {answer: "HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody", want: "body"},
		"line feeds only":   {answer: "HTTP/1.1 200 OK\nA: b\n\nbody", want: "body"},
		"empty":             {answer: "HTTP/1.1 304 Not Modified\r\n\r\n", want: ""},
		"chunked":           {answer: "HTTP/1.1 200 OK\r\ntransfer-ENCODING : chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", none: true},
		"named in the body": {answer: "HTTP/1.1 200 OK\r\n\r\nTransfer-Encoding: chunked\r\n\r\n", want: "Transfer-Encoding: chunked\r\n\r\n"},
		"no end of header":  {answer: "HTTP/1.1 200 OK\r\nA: b\r\n", none: true},
		"nothing":           {answer: "", none: true},
	} {
		got, ok := packed(t, "http://a.test/", &get.Wire{Response: []byte(c.answer)})[1].field["WARC-Payload-Digest"]
		if c.none == ok || !c.none && got != sha(c.want) {
			t.Errorf("%s: digest %q of %q", name, got, c.answer)
		}
	}
}

// FuzzPack: packing and unpacking returns the octets of the exchange.
func FuzzPack(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), []byte("HTTP/1.1 200 OK\r\n\r\nx"))
	f.Add([]byte("\r\n\r\nWARC/1.1\r\n"), []byte(strings.Repeat("\x1f\x8b", 70_000)))
	f.Fuzz(func(t *testing.T, request, response []byte) {
		all := packed(t, "http://a.test/", &get.Wire{Request: request, Response: response})
		if !bytes.Equal(all[1].block, response) || !bytes.Equal(all[2].block, request) {
			t.Errorf("request %q, response %q came back as %q, %q", request, response, all[2].block, all[1].block)
		}
	})
}

// TestPackedByContent: HTML is compressed. For types that are mostly compressed already, such
// as image/png, the content only gets a Huffman code. A body with a content coding is stored as
// it is. All content is equal after it is read back.
func TestPackedByContent(t *testing.T) {
	html := strings.Repeat("<p>the same again</p>", 1000)
	long := func(field string) int {
		t.Helper()
		answer := "HTTP/1.1 200 OK\r\n" + field + "\r\n\r\n" + html
		all := packed(t, "http://a.test/", &get.Wire{Request: []byte("GET / HTTP/1.1\r\n\r\n"), Response: []byte(answer)})
		if string(all[1].block) != answer {
			t.Errorf("%s: the answer came back changed", field)
		}
		return int(all[2].location.Offset - all[1].location.Offset)
	}
	const text, dense, stored = "text", "dense", "stored"
	for fields, want := range map[string]string{
		"Content-Type: text/html": text, "Content-Encoding: identity": text, "Content-Type: image/svg+xml": text, "Content-Type: application/json": text,
		"Content-Type: Image/PNG": dense, "Content-Type: application/pdf": dense, "Content-Type: video/mp4": dense,
		"content-encoding:gzip": stored, "Content-Encoding: br\r\nContent-Type: font/woff2": stored, "Content-Type: image/png\r\nContent-Encoding: gzip": stored,
	} {
		got := text
		switch size := long(fields); {
		case size > len(html):
			got = stored
		case size > len(html)/4:
			got = dense
		}
		if got != want {
			t.Errorf("%q is packed as %s, want %s", fields, got, want)
		}
	}
}

// TestPackRevisit: an answer 304, and one with a known body, are records of the type revisit without a body. They name the earlier
// answer. A body in chunks is a whole answer.
func TestPackRevisit(t *testing.T) {
	earlier := warc.Earlier{URL: "http://a.test/1", At: time.UnixMilli(1_700_000_000_123)}
	for name, c := range map[string]struct {
		response, block, kind, profile, digest string
	}{
		"304":     {"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", "revisit", "server-not-modified", ""},
		"same":    {"HTTP/1.1 200 304 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 200 304 OK\r\nContent-Length: 5\r\n\r\n", "revisit", "identical-payload-digest", sha("hello")},
		"chunked": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "response", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := wire(1)
			w.Response = []byte(c.response)
			disk := vfs.NewMem()
			writer := must(warc.Open(warc.Config{Dir: dir, FS: disk}, nil))
			must(writer.Append(must(warc.PackRevisit("http://a.test/1", w, earlier))))
			must(writer.Sync())
			if err := writer.Close(); err != nil {
				t.Fatal(err)
			}
			field, block := read(t, disk, "crawl-")[1].field, read(t, disk, "crawl-")[1].block
			if field["WARC-Type"] != c.kind || string(block) != c.block || !strings.HasSuffix(field["WARC-Profile"], c.profile) || !strings.HasPrefix(field["WARC-Payload-Digest"], c.digest) {
				t.Errorf("record %v with the block %q", field, block)
			}
			refers := field["WARC-Refers-To-Target-URI"] + " " + field["WARC-Refers-To-Date"]
			if c.kind == "revisit" && refers != "http://a.test/1 2023-11-14T22:13:20.123Z" || c.kind != "revisit" && refers != " " {
				t.Errorf("it refers to %q", refers)
			}
		})
	}
}
