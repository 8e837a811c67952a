package main

import (
	"bytes"
	stdgzip "compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/bloomfrontier/crawler/bench/realhtml"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/warc"
)

// realPages returns answers that contain pages that people wrote, and their mean size
// in bytes. If coded is true, the bodies are compressed with gzip.
func realPages(b *testing.B, coded bool) (wires []*get.Wire, size int64) {
	b.Helper()
	trees, err := realhtml.Installed()
	if err != nil {
		b.Skip(err)
	}
	for _, tree := range trees {
		_ = filepath.WalkDir(tree.Dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || len(wires) >= 500 || !strings.HasSuffix(path, ".html") {
				return err
			}
			body, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			coding := ""
			if coded {
				var packed bytes.Buffer
				z, _ := stdgzip.NewWriterLevel(&packed, 6)
				_, _ = z.Write(body)
				_ = z.Close()
				body, coding = packed.Bytes(), "Content-Encoding: gzip\r\n"
			}
			wires = append(wires, &get.Wire{
				Request: []byte("GET /" + path + " HTTP/1.1\r\nHost: docs.example.org\r\nUser-Agent: crawler/1.0 (+https://example.org/)\r\nAccept: text/html,application/xhtml+xml\r\nAccept-Encoding: gzip\r\n\r\n"),
				Response: append(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: nginx\r\nContent-Type: text/html; charset=utf-8\r\n"+
					"Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\nETag: \"5f3a-60b1c2d3e4f50\"\r\n%sContent-Length: %d\r\n\r\n", coding, len(body)), body...),
				Remote: netip.MustParseAddr("192.0.2.1"), Started: time.Unix(1e9, 0),
			})
			size += int64(len(wires[len(wires)-1].Response))
			return nil
		})
	}
	return wires, size / int64(len(wires))
}

// BenchmarkWriter measures how fast goroutines on all cores compress pages that people wrote,
// and append them to a WARC file. Each goroutine syncs the file after every hundred pages.
func BenchmarkWriter(b *testing.B) {
	for _, coded := range []bool{false, true} {
		wires, size := realPages(b, coded)
		b.Run(fmt.Sprintf("gzip=%t", coded), func(b *testing.B) {
			w, err := warc.Open(warc.Config{Dir: b.TempDir()}, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(size)
			b.RunParallel(func(each *testing.PB) {
				for n := 0; each.Next(); n++ {
					p, err := warc.Pack("https://docs.example.org/", wires[n%len(wires)])
					if err == nil {
						_, err = w.Append(p)
					}
					if err == nil && n%100 == 0 {
						_, err = w.Sync()
					}
					if err != nil {
						b.Error(err)
					}
				}
			})
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
		})
	}
}

type packer interface {
	io.WriteCloser
	Reset(io.Writer)
}

// BenchmarkLevel compares compressors and levels that warc.Pack could use.
func BenchmarkLevel(b *testing.B) {
	for _, coded := range []bool{false, true} {
		wires, size := realPages(b, coded)
		for _, c := range []struct {
			name  string
			level int
			make  func(level int) packer
		}{
			{"klauspost", -3, klauspost}, {"klauspost", -2, klauspost}, {"klauspost", 0, klauspost}, {"klauspost", 1, klauspost}, {"klauspost", 2, klauspost}, {"klauspost", 3, klauspost}, {"klauspost", 5, klauspost},
			{"stdlib", 1, stdlib}, {"stdlib", 6, stdlib},
		} {
			b.Run(fmt.Sprintf("gzip=%t/by=%s/level=%d", coded, c.name, c.level), func(b *testing.B) {
				b.SetBytes(size)
				z, packed := c.make(c.level), 0
				var out bytes.Buffer
				for n := range b.N {
					for _, part := range [][]byte{wires[n%len(wires)].Response, wires[n%len(wires)].Request} {
						out.Reset()
						z.Reset(&out)
						_, _ = z.Write(part)
						_ = z.Close()
						packed += out.Len()
					}
				}
				b.ReportMetric(float64(packed)/float64(b.N), "B/page")
			})
		}
	}
}

func klauspost(level int) packer {
	z, _ := gzip.NewWriterLevel(nil, level)
	return z
}

func stdlib(level int) packer {
	z, _ := stdgzip.NewWriterLevel(nil, level)
	return z
}
