package dedup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

// Memory is the filter's and little else.
func TestMemory(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("measures memory: on Linux, without -short")
	}
	const lines = 1_000_000 // they touch every page of the larger filter: each has 17 bits or more set
	for _, size := range []string{"10M", "40M"} {
		rss := rssOf(t, lines, "--urls="+size)
		filter := predicted(t, size)
		t.Logf("--urls %s takes %.1f MiB, the filter %.1f MiB", size, mib(rss), mib(filter))
		if float64(rss) > 1.03*float64(filter)+baseBytes {
			t.Errorf("--urls %s takes %.1f MiB, want at most 1.03 × %.1f + %.0f MiB", size, mib(rss), mib(filter), mib(baseBytes))
		}
	}
}

// baseBytes is what the process takes beside the filter: docs/dedup.md says so.
const baseBytes = 16 << 20

func mib[N int64 | float64 | int](n N) float64 { return float64(n) / (1 << 20) }

// predicted is what sizing says of a filter.
func predicted(t *testing.T, urls string) int64 {
	t.Helper()
	var n human.Count
	if err := n.Set(urls); err != nil {
		t.Fatal(err)
	}
	chain := sizing.Chain{Keys: uint64(n), FPR: 1e-6, Growth: true}
	return int64(chain.At(1).Bits / 8)
}

// rssOf returns the most memory that a run on so many new URLs took.
func rssOf(t *testing.T, lines int, args ...string) int64 {
	t.Helper()
	cmd := childCommand(t, "-", args...)
	feed, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(feed, 1<<16)
	for i := range lines {
		fmt.Fprintf(w, "https://host%d.example.org/a/%d?b=%d\n", i%997, i, i%13)
	}
	if err := errors.Join(w.Flush(), feed.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	var kib int64
	report := cmd.Stderr.(*bytes.Buffer).String()
	_, peak, _ := strings.Cut(report, "VmHWM:")
	if _, err := fmt.Sscanf(peak, "%d kB", &kib); err != nil {
		t.Fatalf("%v in %s", err, report)
	}
	return kib << 10
}
