// Command warccheck validates WARC files with other libraries: with the strict validation
// of gowarc and, if DIR is given, with warcio. Both must find the same records.
//
//	warccheck [-warcio DIR] FILE...
//
// DIR is a copy of this folder in which "npm ci" was run. The command is a separate
// module, so that the product does not depend on the libraries that check it.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nlnwa/gowarc/v2"
)

func main() {
	warcio := flag.String("warcio", "", "`DIR` where warcio is installed")
	flag.Parse()
	records, err := check(context.Background(), *warcio, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "warccheck:", err)
		os.Exit(1)
	}
	kinds := make(map[string]int)
	for _, r := range records {
		kinds[r.Type]++
	}
	fmt.Printf("%d files are right: %d warcinfo, %d responses, %d requests\n",
		flag.NArg(), kinds["warcinfo"], kinds["response"], kinds["request"])
}

// Record is a WARC record as one of the libraries reads it.
type Record struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Type   string `json:"type"`
	ID     string `json:"id"`
	URL    string `json:"url"`
	Status int    `json:"status"` // of a response
	// Payload is the SHA-256 of the payload as it was sent, and Body that of the payload without its
	// codings. Body is empty if the record is truncated, or has another content coding than gzip.
	Payload string `json:"payload"`
	Body    string `json:"body"`
}

// check reads the files with gowarc. If warcio is not empty, it also reads them with
// warcio and compares the records.
func check(ctx context.Context, warcio string, files []string) (all []Record, err error) {
	for _, file := range files {
		records, err := withGowarc(file)
		if err != nil {
			return nil, fmt.Errorf("gowarc: %s: %w", file, err)
		}
		all = append(all, records...)
	}
	if warcio == "" {
		return all, nil
	}
	other, err := withWarcio(ctx, warcio, files)
	if err != nil {
		return nil, fmt.Errorf("warcio: %w", err)
	}
	if len(other) != len(all) {
		return nil, fmt.Errorf("gowarc finds %d records, warcio %d", len(all), len(other))
	}
	for i := range all {
		if all[i] != other[i] {
			return nil, fmt.Errorf("gowarc finds %+v, warcio %+v", all[i], other[i])
		}
	}
	return all, nil
}

// withGowarc reads a file with gowarc. It returns an error if the strict validation
// finds a fault.
func withGowarc(file string) (records []Record, err error) {
	reader, err := gowarc.NewWarcFileReader(file, 0, gowarc.WithStrictValidation(), gowarc.WithBlockErrorPolicy(gowarc.ErrIgnore))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	for {
		record, offset, validation, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err == nil && !validation.Valid() {
			err = validation
		}
		if err != nil {
			return nil, fmt.Errorf("byte %d: %w", offset, err)
		}
		found, err := describe(record)
		if err = errors.Join(err, record.Close()); err != nil {
			return nil, fmt.Errorf("byte %d: %w", offset, err)
		}
		found.File, found.Offset = file, offset
		records = append(records, found)
	}
}

func describe(record gowarc.WarcRecord) (Record, error) {
	header := record.WarcHeader()
	found := Record{Type: record.Type().String(), ID: header.Get(gowarc.WarcRecordID), URL: header.Get(gowarc.WarcTargetURI)}
	raw, err := record.Block().RawBytes()
	if err != nil {
		return found, err
	}
	block, err := io.ReadAll(raw)
	if err != nil {
		return found, err
	}
	payload, body := block, block
	switch record.Type() {
	case gowarc.Response:
		var head http.Header
		if found.Status, head, payload, err = split(block); err != nil {
			return found, err
		}
		if coding := strings.Join(head.Values("Content-Encoding"), ", "); header.Has(gowarc.WarcTruncated) || coding != "" && coding != "gzip" {
			found.Payload = digest(payload)
			return found, nil
		}
		body, err = decode(head, payload)
	case gowarc.Revisit:
		var head http.Header
		if _, head, payload, err = split(block); err != nil || len(payload) > 0 {
			return found, errors.Join(err, fmt.Errorf("a revisit with %d bytes of a body", len(payload)))
		}
		if coding := head.Get("Content-Encoding"); coding != "" && coding != "gzip" {
			found.Payload = digest(nil)
			return found, nil
		}
		body = nil
	case gowarc.Request:
		_, err = http.ReadRequest(bufio.NewReader(bytes.NewReader(block)))
		payload, body = nil, nil // requests of a crawler have no body
	}
	found.Payload, found.Body = digest(payload), digest(body)
	return found, err
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// split returns the status of an HTTP answer, its header and its body as it was sent. Lines of the
// header may break RFC 9112, as those of real servers do.
func split(block []byte) (status int, head http.Header, payload []byte, err error) {
	line, payload, _ := bytes.Cut(block, []byte("\n"))
	if _, err := fmt.Sscanf(string(line), "HTTP/1.%1d %3d", new(int), &status); err != nil {
		return 0, nil, nil, fmt.Errorf("status line %q: %w", line, err)
	}
	for head = make(http.Header); ; {
		var whole bool
		if line, payload, whole = bytes.Cut(payload, []byte("\n")); !whole {
			return 0, nil, nil, errors.New("the head of the answer does not end")
		}
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
			return status, head, payload, nil
		}
		name, value, _ := strings.Cut(string(line), ":")
		head.Add(name, strings.TrimSpace(value))
	}
}

// decode returns the body of an answer without its transfer coding and the content coding gzip. A body
// that is not in gzip, although the header says so, is not changed.
func decode(head http.Header, payload []byte) ([]byte, error) {
	in := io.Reader(bytes.NewReader(payload))
	if head.Get("Transfer-Encoding") == "chunked" {
		in = httputil.NewChunkedReader(in)
	}
	body, err := io.ReadAll(in)
	if err != nil || head.Get("Content-Encoding") != "gzip" {
		return body, err
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if errors.Is(err, gzip.ErrHeader) {
		return body, nil
	} else if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func withWarcio(ctx context.Context, dir string, files []string) (records []Record, err error) {
	node := exec.CommandContext(ctx, "node", append([]string{filepath.Join(dir, "check.mjs")}, files...)...)
	var complaint bytes.Buffer
	node.Stderr = &complaint
	out, err := node.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(complaint.Bytes()))
	}
	for line := range bytes.Lines(out) {
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}
