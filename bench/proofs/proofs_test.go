// Package proofs holds the crawler to its promises from outside: the real
// binary crawls a synthetic web that this process serves, is killed, starved of
// disk and given nonsense, and its records and books must be exact all the same.
//
// Every proof runs small by default and at full size with -proof; `make proof`
// runs those of all packages and writes docs/proofs.md (see package ledger).
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
)

var (
	seedFlag = flag.Uint64("seed", 0, "run random tests with this seed")
	proof    = flag.Bool("proof", false, "run the proofs at full size")
)

// TestMain removes the binary that the tests built, if they did.
func TestMain(m *testing.M) {
	flag.Parse()
	if !*proof {
		_ = flag.Set("test.parallel", "6") // what waits for delays may wait together
	}
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

// newSeed returns the seed of a test, and prints it.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d runs it again", seed)
	figure(t, "seed", "%d", seed)
	return seed
}

// figure files a result of a proof for docs/proofs.md; name has no spaces.
func figure(t *testing.T, name, format string, args ...any) {
	t.Attr(name, fmt.Sprintf(format, args...))
}

// sized returns the value for the size of this run.
func sized[T any](small, full T) T {
	if *proof {
		return full
	}
	return small
}

var built string // the binary that crawlerBinary built

// crawlerBinary returns the crawler to prove: $CRAWLER_BIN, or one that is
// built as the product is.
func crawlerBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CRAWLER_BIN"); path != "" {
		if _, err := os.Stat(path); err != nil { // also how go test knows that it changed
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
	// What the go command reads below is not what go test sees this test read:
	// without this look at the folders it would take old results for new ones.
	nothing := func(string, fs.DirEntry, error) error { return nil }
	if err := filepath.WalkDir("../../cmd/crawler", nothing); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "proofs-")
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
