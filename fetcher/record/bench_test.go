package record

import (
	"io"
	"testing"
)

// BenchmarkReader measures one pass over records of the length that crawls of
// real pages have, in one plain file that the page cache holds.
func BenchmarkReader(b *testing.B) {
	dir := b.TempDir()
	var text []byte
	const records = 100_000
	for n := range records {
		r := sample(n, n/20)
		r.Digest = "sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		r.ETag, r.LastModified = `"5f3a-60b1c2d3e4f50"`, "Thu, 01 Jan 1970 00:00:00 GMT"
		r.ContentType, r.Charset, r.Title = "text/html", "utf-8", "A page of some length, as titles are"
		text = append(text, line(b, r)...)
	}
	write(b, dir, activeFile, text)
	r := Reader{Dir: dir}
	run := func(name string, once func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := once(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(records*b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
	run("op=all", func() error {
		for _, err := range r.All() {
			if err != nil {
				return err
			}
		}
		return nil
	})
	run("op=find/by=id", func() error {
		_, _, err := r.Find(idOf(records - 1))
		return err
	})
	run("op=find/by=url", func() error {
		_, _, err := r.Find(sample(records-1, 0).URL)
		return err
	})
	run("op=trail", func() error {
		_, err := r.Trail(idOf(records - 1))
		return err
	})
	run("op=join", func() error { return r.JoinReferrers(io.Discard, b.TempDir()) })
}
