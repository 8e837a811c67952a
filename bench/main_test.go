package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
)

// TestMain lets the test binary also run as the processes that a measurement starts.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && !strings.HasPrefix(os.Args[1], "-") {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestRunRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"want a command":                             {},
		"unknown command":                            {"guess"},
		"want at least one copy":                     {"compare", "-copies", "0"},
		"want fpr, speed, memory, crawl, broad, mix": {"measure", "seen"},
	} {
		err := run(t.Context(), args, nil, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("bench %q: %v, want an error that says %q", args, err, want)
		}
	}
}

// TestMeasure makes a small report with servers that this process starts.
func TestMeasure(t *testing.T) {
	var out, lines bytes.Buffer
	args := []string{"measure", "-n", "1000", "-budget", "2m", "-crawler", crawlerBinary(t), "-report", t.TempDir(), "crawl"}
	if err := run(t.Context(), args, nil, &out, &lines); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n## Pages a second\n", "\n| 1,000 pages, 10 hosts ", "\n* servers: Redis "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the report:\n%s\n%s", want, &out, &lines)
		}
	}
}
