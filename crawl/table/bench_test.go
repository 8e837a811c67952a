package table

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/record"
)

// BenchmarkWrite writes the same records in each format.
func BenchmarkWrite(b *testing.B) {
	var text []byte
	for i := range 10_000 {
		r := record.Record{
			URL: fmt.Sprintf("https://www.example.org/articles/%d/some-title-of-a-page", i), Host: "www.example.org", Outcome: "ok", Status: 200, Depth: i % 7,
			ReferrerID: fmt.Sprintf("%016x", i/20*7919), ID: fmt.Sprintf("%016x", i*7919), Attempts: 1, FetchedAt: time.UnixMilli(1.7e12 + int64(i)*50).UTC(),
			DurationMS: float64(i%400) / 7, ContentType: "text/html", Charset: "utf-8", Bytes: int64(i) * 37, Digest: fmt.Sprintf("sha256:%064x", i*104729),
			Title: fmt.Sprintf("Some title of page %d", i), LinksFound: uint64(i % 90), LinksAdded: uint64(i % 5),
		}
		text, _ = r.AppendLine(text)
	}
	source := linesOf(string(text))
	s := Records()
	some := []Column{{"url", String}, {"status", Int}, {"title", String}}
	where, err := s.Condition("status >= 400")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		Table
	}{
		{"format=jsonl", Table{Schema: s}},
		{"format=jsonl/where=status", Table{Schema: s, Where: where}},
		{"format=jsonl/columns=3", Table{Schema: s, Columns: some}},
		{"format=jsonl/columns=all", Table{Schema: s, Columns: s.columns}},
		{"format=csv/columns=3", Table{Schema: s, Format: CSV, Columns: some}},
		{"format=csv/columns=all", Table{Schema: s, Format: CSV, Columns: s.columns}},
		{"format=parquet/columns=3", Table{Schema: s, Format: Parquet, Columns: some}},
		{"format=parquet/columns=all", Table{Schema: s, Format: Parquet, Columns: s.columns}},
		{"format=parquet/columns=found", Table{Schema: s, Format: Parquet}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var out counter
			before := processorTime(b)
			for b.Loop() {
				out = 0
				if err := c.Write(source, &out); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N)/10_000/1000, "cpu-µs/record")
			b.ReportMetric(float64(out)/10_000, "B/record")
		})
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// processorTime returns the processor time of the process. Other programs affect it
// less than they affect the elapsed time.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
