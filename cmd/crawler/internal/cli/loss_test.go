package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/crawl"
)

// TestAcceptLossRefuses: `crawler rebuild --accept-loss` fails if the remaining records belong
// to another crawl or are damaged. The error says which of the two faults was found.
func TestAcceptLossRefuses(t *testing.T) {
	t.Parallel()
	address := site(t)
	dir := crawled(t, address, "--max-depth", "1", "http://a.test/")
	whole, err := os.ReadFile(crawl.RecordsFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	shortest := slices.MinFunc(lines[:len(lines)-1], func(a, b string) int { return len(a) - len(b) })
	for text, want := range map[string]string{
		strings.Repeat(shortest, len(lines)-2): "it has records that this crawl did not write", // more records of an outcome than the crawl has
		lines[0] + "{}\n" + lines[1]:           "record 2: id is",
		lines[0] + "no record\n" + lines[1]:    "record 2: invalid character",
	} {
		if len(text) >= len(whole) {
			t.Fatalf("the cut file has %d bytes, want fewer than %d", len(text), len(whole))
		}
		if err := os.WriteFile(crawl.RecordsFile(dir), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		code, out, errs := run(t, "", "rebuild", "--accept-loss", "--dir", dir)
		if code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, want %d and %q in stderr: %s%s", code, exitFailed, want, out, errs)
		}
	}
	if err := os.WriteFile(crawl.RecordsFile(dir), whole, 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, "status", "--audit", "--dir", dir)
	if code, _, errs := run(t, "", "rebuild", "--accept-loss", "--redis", "redis://127.0.0.1:1", "--name", "n"); code != exitUsage {
		t.Errorf("--accept-loss with --redis: exit code %d, want a usage error: %s", code, errs)
	}
}
