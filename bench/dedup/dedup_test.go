// Package dedup compares `crawler dedup` with alternatives: sort -u, and a small program
// with a map. Each runs in a separate process, on one core, and reads and writes a file:
//
//	go -C bench test -run '^$' -bench . -benchtime 1x ./dedup -urls 10000000
package dedup

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var lines = flag.Int("urls", 300_000, "lines of the benchmark's input; three quarters of them are new URLs")

// mapEnv is an environment variable. If it is set, the test binary runs as the program
// with a map.
const mapEnv = "CRAWLER_BENCH_MAP"

func TestMain(m *testing.M) {
	if os.Getenv(mapEnv) != "" {
		if err := dedupByMap(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

// dedupByMap copies each distinct line of r to w once. It does not bring URLs to their
// canonical form.
func dedupByMap(r io.Reader, w io.Writer) error {
	seen := make(map[string]struct{})
	out := bufio.NewWriterSize(w, 64<<10)
	in := bufio.NewScanner(r)
	for in.Scan() {
		if _, known := seen[string(in.Bytes())]; !known {
			seen[in.Text()] = struct{}{}
			_, _ = out.Write(append(in.Bytes(), '\n'))
		}
	}
	return errors.Join(in.Err(), out.Flush())
}

var built string // the path of the binary that crawlerBinary built, or empty

// crawlerBinary returns the path of the crawler: $CRAWLER_BIN, or a binary that it builds
// like a release.
func crawlerBinary(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv("CRAWLER_BIN"); path != "" {
		return path
	}
	path, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "dedup-")
	if err != nil {
		return "", err
	}
	built = filepath.Join(dir, "crawler")
	cmd := exec.Command("go", "build", "-o", built, "github.com/bloomfrontier/crawler/cmd/crawler")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return built, nil
})

// writeURLs writes a file with n canonical URLs of about 85 bytes. A quarter of the URLs
// are repetitions. writeURLs returns the name of the file and the number of distinct
// URLs.
func writeURLs(tb testing.TB, n int) (name string, fresh int) {
	tb.Helper()
	name = filepath.Join(tb.TempDir(), "urls.txt")
	f, err := os.Create(name)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		k := fresh
		if i%4 == 3 {
			k = rnd.IntN(fresh)
		} else {
			fresh++
		}
		fmt.Fprintf(w, "https://www.host%d.example.org/section%d/article-%d/index.html?page=%d&lang=en\n", k%5000, k%97, k, k%13)
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		tb.Fatal(err)
	}
	return name, fresh
}

// contestant is a program that reads lines and writes each distinct line once.
type contestant struct {
	name string
	path string
	args []string
	env  string
}

func contestants(tb testing.TB, urls int) []contestant {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	crawler, size := crawlerBinary(tb), fmt.Sprintf("--urls=%d", urls)
	all := []contestant{
		{"dedup", crawler, []string{"dedup", size}, ""},
		{"dedup-dir", crawler, []string{"dedup", size, "--dir=DIR"}, ""},
		{"dedup-exact", crawler, []string{"dedup", "--exact"}, ""},
		{"go-map", self, nil, mapEnv + "=1"},
	}
	if sort, err := exec.LookPath("sort"); err == nil { // unlike the other programs, sort does not keep the order
		all = append(all, contestant{"sort-u", sort, []string{"-u"}, "LC_ALL=C"})
	}
	return all
}

// usage is the result of a process and the resources that it took.
type usage struct {
	took, cpu time.Duration
	rss       int64 // maximum, in bytes; never less than the RSS of the process that started it
	lines     int   // number of lines that it wrote
}

// run runs a contestant with the given input. The contestant's output goes to a file. Go
// programs run on one core.
func (c contestant) run(tb testing.TB, input string) usage {
	tb.Helper()
	in, err := os.Open(input)
	if err != nil {
		tb.Fatal(err)
	}
	defer in.Close()
	dir := tb.TempDir()
	out, err := os.Create(filepath.Join(dir, "out.txt"))
	if err != nil {
		tb.Fatal(err)
	}
	defer out.Close()
	var args []string
	for _, arg := range c.args {
		args = append(args, strings.Replace(arg, "DIR", filepath.Join(dir, "seen"), 1))
	}
	var report strings.Builder
	cmd := exec.Command(c.path, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", c.env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &report
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		tb.Fatalf("%s: %v\n%s", c.name, err, &report)
	}
	state := cmd.ProcessState
	return usage{
		took: time.Since(begun), cpu: state.UserTime() + state.SystemTime(),
		rss:   state.SysUsage().(*syscall.Rusage).Maxrss << 10,
		lines: countLines(tb, out.Name()),
	}
}

func countLines(tb testing.TB, name string) (n int) {
	tb.Helper()
	f, err := os.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		n++
	}
	return n
}

func BenchmarkDedup(b *testing.B) {
	input, fresh := writeURLs(b, *lines)
	for _, c := range contestants(b, fresh) {
		b.Run("tool="+c.name, func(b *testing.B) {
			var all usage
			for b.Loop() {
				u := c.run(b, input)
				// A filter can take a few new URLs for known ones, usually at most one in a
				// million.
				if u.lines > fresh || u.lines < fresh-fresh/1000 {
					b.Fatalf("the output has %d lines, want %d, or up to 0.1 %% fewer", u.lines, fresh)
				}
				all.took += u.took
				all.cpu += u.cpu
				all.rss = max(all.rss, u.rss)
			}
			b.ReportMetric(float64(*lines*b.N)/all.took.Seconds(), "lines/s")
			b.ReportMetric(float64(*lines*b.N)/all.cpu.Seconds(), "lines/cpu-s")
			b.ReportMetric(float64(all.rss)/1e6, "MB-RSS")
		})
	}
}

// buffersBytes is what `crawler dedup` may take, beside its filter, above a run with a filter of
// some kilobytes and few lines.
const buffersBytes = 8 << 20

// TestMemory compares the memory that `crawler dedup` takes with the size of its filter
// according to `crawler size`. The rest is compared with a run that has nearly no filter, because
// most of it holds parts of the program file, and how much of it the system has in memory differs.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory: run without -short")
	}
	const urls = 20_000_000
	input, _ := writeURLs(t, 300_000) // the URLs set bits in every page of the filter's memory, so all pages are in memory
	crawler := crawlerBinary(t)
	text, err := exec.Command(crawler, "size", "--json", fmt.Sprint("--urls=", urls)).Output()
	if err != nil {
		t.Fatal(err)
	}
	var size struct {
		Memory struct {
			Bytes int64 `json:"bytes"`
		} `json:"memory"`
	}
	if err := json.Unmarshal(text, &size); err != nil || size.Memory.Bytes == 0 {
		t.Fatalf("crawler size --json: %v, memory of %+v, want more than 0 bytes", err, size)
	}
	got := contestant{"dedup", crawler, []string{"dedup", fmt.Sprint("--urls=", urls)}, ""}.run(t, input)
	few, _ := writeURLs(t, 1000)
	base := contestant{"base", crawler, []string{"dedup", "--urls=1000"}, ""}.run(t, few).rss
	want := size.Memory.Bytes + size.Memory.Bytes*3/100 + base + buffersBytes
	t.Logf("RSS %.1f MiB with a filter of %.1f MiB", mib(got.rss), mib(size.Memory.Bytes))
	if got.rss > want {
		t.Errorf("RSS %.1f MiB, want at most 1.03 × %.1f + %.1f + %.0f MiB", mib(got.rss), mib(size.Memory.Bytes), mib(base), mib(buffersBytes))
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
