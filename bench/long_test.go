package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testweb"
)

var (
	longPages = flag.Int("long.pages", 20_000, "pages of BenchmarkLongCrawl")
	longEvery = flag.Duration("long.every", time.Second, "between two samples of BenchmarkLongCrawl")
)

// BenchmarkLongCrawl crawls the test web without delay with the real binary, and samples
// the crawler's rate and memory. Another process serves the web. The benchmark reports
// pages/s, the largest RSS, and two ratios. One is the largest RSS of the second half,
// divided by the largest RSS between 10 % and 25 % of the time. The other is the rate of
// the last whole interval, divided by the rate of the first interval. Command for a long
// crawl:
//
//	go -C bench test -run '^$' -bench LongCrawl -benchtime 1x -timeout 0 -long.pages 1000000 -long.every 1m
func BenchmarkLongCrawl(b *testing.B) {
	for b.Loop() {
		samples := longCrawl(b, *longPages)
		last := samples[len(samples)-1]
		b.ReportMetric(float64(last.pages)/last.at.Seconds(), "pages/s")
		peak := func(from, to float64) (most float64) {
			for _, s := range samples {
				if share := s.at.Seconds() / last.at.Seconds(); share >= from && share <= to {
					most = max(most, s.rss)
				}
			}
			return most
		}
		b.ReportMetric(peak(0, 1), "rss-MB")
		b.ReportMetric(peak(0.5, 1)/peak(0.1, 0.25), "rss-late/early")
		if full := samples[:len(samples)-1]; len(full) > 2 { // the last sample does not end a whole interval
			first, before, end := full[0], full[len(full)-2], full[len(full)-1]
			late := float64(end.pages-before.pages) / (end.at - before.at).Seconds()
			b.ReportMetric(late/(float64(first.pages)/first.at.Seconds()), "rate-late/early")
		}
	}
}

type moment struct {
	at    time.Duration
	pages uint64
	rss   float64 // MB
}

func longCrawl(b *testing.B, pages int) []moment {
	bin := crawlerBinary(b)
	dir := filepath.Join(b.TempDir(), "long.crawl")
	flags := []string{"--pages", fmt.Sprint(pages), "--hosts", fmt.Sprint(max(pages/100, 10)), "--page-bytes", "4KiB"}
	web, err := testweb.New(testweb.Config{Seed: 1, Pages: pages, Hosts: max(pages/100, 10), MeanBytes: 4 << 10})
	if err != nil {
		b.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	server := exec.CommandContext(ctx, bin, append([]string{"testweb", "--listen", addr}, flags...)...)
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { stop(); _ = server.Wait() }()

	var stderr bytes.Buffer
	crawl := exec.CommandContext(ctx, bin, append([]string{"crawl", "--dir", dir, "--scope", "any", "--delay", "0",
		"--connect-to", "*=" + addr}, web.Seeds()...)...)
	crawl.Stderr = &stderr
	begun := time.Now()
	if err := crawl.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- crawl.Wait() }()
	var samples []moment
	ticker := time.NewTicker(*longEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				b.Fatalf("crawl: %v\n%s", err, stderr.String())
			}
			total := uint64(countLines(b, filepath.Join(dir, "pages.jsonl")))
			if total != uint64(pages) {
				b.Fatalf("%d records, want %d\n%s", total, pages, stderr.String())
			}
			at := time.Since(begun)
			rss := 0.0
			if len(samples) > 0 {
				rss = samples[len(samples)-1].rss
			}
			return append(samples, moment{at, total, rss})
		case <-ticker.C:
			s := moment{at: time.Since(begun), pages: pagesSoFar(ctx, bin, dir), rss: residentMB(crawl.Process.Pid)}
			samples = append(samples, s)
			b.Logf("%v: %d pages, RSS %.0f MB", s.at.Round(time.Second), s.pages, s.rss)
		}
	}
}

// pagesSoFar returns the number of pages of the running crawl, or 0 if it does not answer.
func pagesSoFar(ctx context.Context, bin, dir string) uint64 {
	out, err := exec.CommandContext(ctx, bin, "status", "--json", "--dir", dir).Output()
	var status struct {
		Stats struct{ Pages uint64 }
	}
	if err != nil || json.Unmarshal(out, &status) != nil {
		return 0
	}
	return status.Stats.Pages
}

func residentMB(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			return n / 1000
		}
	}
	return 0
}

func countLines(b *testing.B, name string) (n int) {
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for {
		k, err := f.Read(buf)
		n += bytes.Count(buf[:k], []byte{'\n'})
		if err != nil {
			return n
		}
	}
}
