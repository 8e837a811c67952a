package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nlnwa/gowarc/v2"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/internal/testkit/npm"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// TestOddAnswers archives the answers of the test web that break a rule of HTTP. The archive holds the
// bytes as they were sent, and gowarc reads all records.
func TestOddAnswers(t *testing.T) {
	files, sent := archivedOdd(t, func(*get.Wire) bool { return true })
	records, err := check(t.Context(), "", files)
	if err != nil {
		t.Fatal(err)
	}
	blocks := answersIn(t, files)
	found := 0
	for _, r := range records {
		if r.Type != "response" {
			continue
		}
		found++
		if want := sent[r.URL]; blocks[r.URL] != want || want == "" {
			t.Errorf("%s: the archive holds %q, sent was %q", r.URL, blocks[r.URL], want)
		}
	}
	if found != len(sent) || found < 170 {
		t.Errorf("%d answers in the archive, want %d, which is 170 or more", found, len(sent))
	}
}

// TestOddAnswersWithWarcio checks that warcio finds the same as gowarc in odd answers, except in
// those of which warcio finds no body. It needs -proof, as TestWarcio does.
func TestOddAnswersWithWarcio(t *testing.T) {
	if !*proof {
		t.Skip("needs npm and a network: run with -proof")
	}
	files, sent := archivedOdd(t, hasEndForWarcio)
	records, err := check(t.Context(), npm.Install(t, "."), files)
	if err != nil {
		t.Fatal(err)
	}
	if len(records) < 2*len(sent) || len(sent) < 170 {
		t.Errorf("%d records of %d answers, want two for each of 170 or more", len(records), len(sent))
	}
}

// hasEndForWarcio reports whether warcio finds the end of the head of an answer: a blank line, with CRLF
// and after at least one field.
func hasEndForWarcio(wire *get.Wire) bool {
	_, fields, _ := bytes.Cut(wire.Response, []byte("\n"))
	return bytes.Contains(fields, []byte("\r\n\r\n"))
}

// archivedOdd returns WARC files with the odd answers of the test web that are wanted, and what the
// server sent for their URLs.
func archivedOdd(t *testing.T, wanted func(*get.Wire) bool) (files []string, sent map[string]string) {
	t.Helper()
	web, err := testweb.New(testweb.Config{
		Seed: 1, Hosts: 5, Pages: 50, Hardships: testweb.OddAnswers | testweb.OddMarkup | testweb.Sitemaps, MeanBytes: 500, MaxBodyBytes: 256 << 10, Year: 2030,
	})
	if err != nil {
		t.Fatal(err)
	}
	site := listen(t, web)
	to, err := get.ParseConnectTo("*.test=" + site.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client, err := get.New(get.Config{Capture: true, AllowPrivate: true, IdleTimeout: 1, MaxBodyBytes: 256 << 10, ConnectTo: []get.Rule{to}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w, err := warc.Open(warc.Config{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	sent = make(map[string]string)
	for page := range web.Expected() {
		if !strings.Contains(page.URL, ".odd.test/") {
			continue
		}
		answer, err := client.Get(t.Context(), get.Request{URL: page.URL})
		if err != nil {
			if !errors.Is(err, get.ErrDiscarded) || page.Outcome != "network" {
				t.Errorf("%s: %v, want the outcome %s", page.URL, err, page.Outcome)
			}
			continue
		}
		if wanted(answer.Wire) {
			sent[page.URL] = site.sentLast(answer.Wire)
			add(t, w, page.URL, answer.Wire)
		}
		answer.Release()
	}
	if files, err = filepath.Glob(filepath.Join(dir, warc.Folder, "*.warc.gz")); err != nil {
		t.Fatal(err)
	}
	return files, sent
}

// recorder is a listener that records what is sent over its last connection.
type recorder struct {
	net.Listener
	mu   sync.Mutex
	last *recorded
}

// recorded is a connection. What is sent over it is recorded.
type recorded struct {
	net.Conn
	mu   sync.Mutex
	sent bytes.Buffer
}

// listen serves the test web until the test ends.
func listen(t *testing.T, web *testweb.Web) *recorder {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{Listener: listener}
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := web.Serve(ctx, r); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); serving.Wait() })
	return r
}

func (r *recorder) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = &recorded{Conn: conn}
	return r.last, nil
}

func (c *recorded) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.sent.Write(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// sentLast returns what was sent over the last connection, without interim answers. If an archive needs
// only a part of the answer, this is as much as wire has of it.
func (r *recorder) sentLast(wire *get.Wire) string {
	r.mu.Lock()
	conn := r.last
	r.mu.Unlock()
	conn.mu.Lock()
	defer conn.mu.Unlock()
	sent := conn.sent.String()
	for strings.HasPrefix(sent, "HTTP/1.1 1") {
		_, sent, _ = strings.Cut(sent, "\r\n\r\n")
	}
	if wire.Truncated {
		sent = sent[:min(len(sent), len(wire.Response))]
	}
	return sent
}

// answersIn returns the bytes of the answers in WARC files, by their URLs.
func answersIn(t *testing.T, files []string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, file := range files {
		reader, err := gowarc.NewWarcFileReader(file, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		for {
			record, _, _, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			raw, err := record.Block().RawBytes()
			if err != nil {
				t.Fatal(err)
			}
			block, err := io.ReadAll(raw)
			if err != nil {
				t.Fatal(err)
			}
			if record.Type() == gowarc.Response {
				all[record.WarcHeader().Get(gowarc.WarcTargetURI)] = string(block)
			}
			record.Close()
		}
	}
	return all
}
