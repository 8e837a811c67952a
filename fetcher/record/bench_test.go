package record

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/bloomfrontier/crawler/internal/groupcommit"
)

// BenchmarkReader measures one pass over a plain file in the page cache. Its records are
// as long as those of real pages.
func BenchmarkReader(b *testing.B) {
	dir := b.TempDir()
	var text []byte
	const records = 100_000
	for n := range records {
		text = append(text, line(b, pageSample(n))...)
	}
	write(b, dir, Pages.active(), text)
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
	count := func(lines Lines) error {
		for _, err := range lines {
			if err != nil {
				return err
			}
		}
		return nil
	}
	run("op=join", func() error { return JoinReferrers(b.Context(), r.Lines(), b.TempDir(), count) })
	run("op=latest", func() error {
		latest, err := Latest(b.Context(), r.Lines(), b.TempDir())
		if err != nil {
			return err
		}
		return count(latest)
	})
}

// BenchmarkExport measures the merge of the records of four workers, in files in the page
// cache. The records are as long as those of real pages, and a void line cancels one in
// eight.
func BenchmarkExport(b *testing.B) {
	const dirs, each = 4, 100_000
	e := Export{Temp: b.TempDir()}
	rng := rand.New(rand.NewPCG(1, 1))
	for range dirs {
		var text []byte
		for n := range each {
			r := pageSample(n)
			binary.LittleEndian.PutUint64(r.Item[:], rng.Uint64())
			binary.LittleEndian.PutUint64(r.Lease[:], rng.Uint64())
			text, _ = r.appendLeased(text)
			if n%8 == 0 {
				text = r.appendVoid(text)
			}
		}
		dir := b.TempDir()
		write(b, dir, Pages.active(), text)
		e.Dirs = append(e.Dirs, dir)
		b.SetBytes(dirs * int64(len(text)))
	}
	for b.Loop() {
		if sums, err := e.To(b.Context(), io.Discard); err != nil || sums.Void != dirs*each/8 {
			b.Fatal(sums, err)
		}
	}
	b.ReportMetric(float64(dirs*each*b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkJournal measures workers whose records are written in groups, as a store writes
// them. Each worker waits until its record is on disk.
func BenchmarkJournal(b *testing.B) {
	for _, workers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			journal, err := OpenJournal(Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			r := pageSample(1)
			var running sync.WaitGroup
			queue := groupcommit.New(groupcommit.Config[*Record]{
				MaxSize: 256,
				Go: func(run func(context.Context)) error {
					running.Go(func() { run(context.Background()) })
					return nil
				},
				Commit: func(_ context.Context, group []*Record) {
					for _, r := range group {
						_ = journal.Append(r)
					}
					if _, err := journal.Sync(); err != nil {
						b.Error(err)
					}
				},
			})
			b.SetParallelism((workers + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					_ = queue.Add(&r, 1).Wait(b.Context())
				}
			})
			running.Wait()
			if err := journal.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// pageSample returns a record that is as long as that of a real page.
func pageSample(n int) Record {
	r := sample(n, n/20)
	r.Digest = "sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	r.ETag, r.LastModified = `"5f3a-60b1c2d3e4f50"`, "Thu, 01 Jan 1970 00:00:00 GMT"
	r.ContentType, r.Charset, r.Title = "text/html", "utf-8", "A page of some length, as titles are"
	return r
}
