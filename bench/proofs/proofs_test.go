// Package proofs tests the promises of the crawler from outside. In most proofs, the real
// binary crawls a synthetic web that this process serves. The crawler is killed, runs out
// of disk space, or gets wrong input. Its records and its counters (the books) must still
// be exact.
//
// Package testweb makes the synthetic web. It can give the web hardships, which are
// difficulties for crawlers such as redirects, huge pages and hosts that do not answer.
//
// Every proof runs at a small size by default, and at full size with -proof.
// `make proof` runs the proofs of all packages, and writes their results to docs/proofs.md.
package proofs

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run random tests with this seed")
	proof    = flag.Bool("proof", false, "run the proofs at full size")
)

// TestMain runs the tests and removes the binary that they built.
func TestMain(m *testing.M) {
	flag.Parse()
	if !*proof {
		_ = flag.Set("test.parallel", "6") // more than the cores, because most crawls wait for delays
	}
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

// newSeed returns the seed of a test, and logs it.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("run it again with -seed %d", seed)
	figure(t, "seed", "%d", seed)
	return seed
}

// figure adds a measurement to a proof, which `make proof` prints. name must
// not contain spaces.
func figure(t *testing.T, name, format string, args ...any) {
	t.Attr(name, fmt.Sprintf(format, args...))
}

// timed calls the function run and adds the duration of the call to the figures.
func timed(t *testing.T, run func()) {
	t.Helper()
	began := time.Now()
	run()
	figure(t, "duration", "%v", time.Since(began).Round(100*time.Millisecond))
}

// sized returns the argument full if the proofs run at full size, and otherwise the
// argument small.
func sized[T any](small, full T) T {
	if *proof {
		return full
	}
	return small
}

var built string // the path of the binary that crawlerBinary built, or empty

// crawlerBinary returns the path of the crawler to test: $CRAWLER_BIN, or a binary that
// it builds like a release.
func crawlerBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CRAWLER_BIN"); path != "" {
		if _, err := os.Stat(path); err != nil { // Stat also makes go test's cache depend on the file
			t.Fatal(err)
		}
		return path
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	// The cache of go test depends on the files that this process reads, but not on
	// those that the go command below reads. Without this walk, go test would reuse old
	// results after a change of the crawler.
	nothing := func(string, fs.DirEntry, error) error { return nil }
	if err := filepath.WalkDir("../../cmd/crawler", nothing); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "proofs-")
	if err != nil {
		return "", err
	}
	built = filepath.Join(dir, "crawler")
	cmd := exec.Command("go", "build", "-o", built, "./cmd/crawler")
	cmd.Dir = "../.." // the module of the program, which requires more than this one
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return built, nil
})
