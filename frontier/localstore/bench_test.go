package localstore

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
	"github.com/bloomfrontier/crawler/sizing"
)

var size = flag.Int("size", 1_000_000, "URLs of the benchmarks that need many")

// BenchmarkSuite runs the suite's benchmarks on the disk. The store syncs the changes of a
// call before it answers.
func BenchmarkSuite(b *testing.B) {
	frontiertest.Bench(b, func(b *testing.B, opt frontiertest.Options) frontiertest.Crawl {
		return openBench(b, Config{LeaseTTL: opt.LeaseTTL, Filter: membits.Config{Capacity: opt.Capacity},
			OpenOutput: func(frontier.Identity, frontier.Position) (frontier.Output, error) { return opt.Output, nil }})
	})
}

func openBench(b *testing.B, cfg Config) *Store {
	cfg.Dir = b.TempDir()
	s, err := Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// fill adds n items of some hosts in batches of 1000.
func fill(b *testing.B, s *Store, n, hosts int) {
	b.Helper()
	for from := 0; from < n; from += 1000 {
		items := make([]frontier.Offer, min(1000, n-from))
		for i := range items {
			host := fmt.Sprintf("host-%d.example.org", (from+i)%hosts)
			items[i] = frontier.Offer{URL: fmt.Sprintf("https://%s/some/longer/path/page-%d.html", host, (from+i)/hosts), Host: host,
				Depth: 3, Priority: frontier.PriorityPage}
		}
		if _, err := s.Add(b.Context(), items); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOneHost leases and completes all items of one host. The flag -size is the number
// of items. Each completed item leaves a tombstone, which is pebble's mark of a deleted row.
// The tombstones must not make the last lease slow.
func BenchmarkOneHost(b *testing.B) {
	for b.Loop() {
		s := openBench(b, Config{Filter: membits.Config{Capacity: uint64(*size)}})
		fill(b, s, *size, 1)
		tenth := *size / 10
		var rates []float64
		for popped, ids := 0, uint64(0); popped < *size; {
			start, from := time.Now(), popped
			for popped < min(from+tenth, *size) {
				ids++
				popped += popHost(b, s, ids, *size-popped)
			}
			rates = append(rates, float64(popped-from)/time.Since(start).Seconds())
		}
		b.ReportMetric(rates[0], "first-items/s")
		b.ReportMetric(rates[len(rates)-1], "last-items/s")
		b.ReportMetric(rates[len(rates)-1]/rates[0], "last/first")
	}
}

// popHost leases a host, and extends the lease to at most 1000 items. Then it completes
// the items and returns their number.
func popHost(b *testing.B, s *Store, n uint64, most int) int {
	var id frontier.LeaseID
	binary.BigEndian.PutUint64(id[:], n)
	grant, err := s.Lease(context.Background(), frontier.LeaseRequest{IDs: []frontier.LeaseID{id}})
	if err != nil || len(grant.Leases) != 1 {
		b.Fatalf("Lease = %d leases, %v, want 1", len(grant.Leases), err)
	}
	items := grant.Leases[0].Items
	extension, err := s.Extend(context.Background(), id, frontier.TopUp{Items: min(1000, most), Known: len(items)})
	if err != nil {
		b.Fatal(err)
	}
	items = append(items, extension.Items...)
	done := make([]frontier.Completion, len(items))
	for i, item := range items {
		done[i] = frontier.Completion{Item: item.Fingerprint, Outcome: frontier.OK, Page: true}
	}
	if err := s.Complete(context.Background(), id, done, frontier.HostUpdate{End: true}); err != nil {
		b.Fatal(err)
	}
	return len(items)
}

// BenchmarkManyHosts queues as many items as the flag -size says, on a tenth as many hosts,
// and reports the process's memory after half of the items and at the end.
func BenchmarkManyHosts(b *testing.B) {
	for b.Loop() {
		s := openBench(b, Config{Filter: membits.Config{Capacity: uint64(*size)}})
		start := time.Now()
		half := 0.0
		fill(b, s, *size/2, *size/10)
		half = residentMiB(b)
		fill(b, s, *size, *size/10)
		b.ReportMetric(float64(*size)/time.Since(start).Seconds(), "items/s")
		b.ReportMetric(half, "half-MiB")
		b.ReportMetric(residentMiB(b), "MiB")
	}
}

// residentMiB returns the process's memory in RAM, or 0 on systems where it is unknown.
func residentMiB(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}

// BenchmarkRestart measures how long it takes to open a crawl. The flag -size is the number
// of queued URLs.
// It also reports the rate at which the crawl was filled, the memory of the process and
// the size of the directory. It makes as many random probes of the filter as there are
// URLs, and reports the false positives in a million probes, with their 95 % interval.
func BenchmarkRestart(b *testing.B) {
	for _, after := range []string{"close", "crash"} {
		b.Run("after="+after, func(b *testing.B) {
			cfg := Config{Dir: b.TempDir(), Filter: membits.Config{Capacity: uint64(*size)}}
			s, err := Open(cfg)
			if err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			fill(b, s, *size, max(*size/1000, 1))
			rate, memory, disk := float64(*size)/time.Since(began).Seconds(), residentMiB(b), diskMiB(b, cfg.Dir)
			claimed, err := bloomrate.Probe(b.Context(), s.filter.(*membits.Filter), bloomrate.RandomKeys(rand.New(rand.NewPCG(1, 2))), uint64(*size))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() { // the start of b.Loop removes metrics that were reported before
				b.StopTimer()
				if after == "crash" {
					s.guard.fail(errKilled)
				}
				if err := s.Close(); (err != nil) != (after == "crash") {
					b.Fatal(err)
				}
				b.StartTimer()
				if s, err = Open(cfg); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/open")
			b.ReportMetric(rate, "items/s")
			b.ReportMetric(memory, "MiB")
			b.ReportMetric(disk, "disk-MiB")
			low, high := sizing.Interval(claimed, uint64(*size))
			b.ReportMetric(float64(claimed)/float64(*size)*1e6, "errors/M")
			b.ReportMetric(low*1e6, "errors/M-low")
			b.ReportMetric(high*1e6, "errors/M-high")
			_ = s.Close()
		})
	}
}

func diskMiB(b *testing.B, dir string) (sum float64) {
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) { // a compaction has removed it
			return nil
		}
		if err == nil {
			sum += float64(info.Size()) / (1 << 20)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return sum
}
