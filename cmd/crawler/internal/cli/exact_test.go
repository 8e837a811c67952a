package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestExactFlagFaults: the message about each fault of the flags for exact keys names the
// fault.
func TestExactFlagFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--exact", "seeds,everything"}, `exact rule "everything": want one of seeds,`},
		{[]string{"--exact", "depth<=x"}, `"x" is no depth`},
		{[]string{"--exact", "a: seeds", "--window", "b=1h"}, `no class has the name "b"; want one of a, sitemap-files, bulk`},
		{[]string{"--window", "bulk=1s"}, "Span is 1s, want 6s or more for 6 generations"},
		{[]string{"--window", "bulk=1d", "--growth=off"}, "want --growth on"},
		{[]string{"--window", "bulk=1d", "--fpr", "1e-10"}, "FPR is 1e-10, want one from 1e-09"},
		{[]string{"--window", "seeds=soon"}, `"soon" is neither 0 nor a duration`},
		{[]string{"--window", "seeds"}, "want a class and how long"},
	} {
		code, _, errs := run(t, "", slices.Concat([]string{"crawl", "--dir", t.TempDir()}, test.args, []string{"http://a.test/"})...)
		if code != exitUsage || !strings.Contains(errs, test.want) {
			t.Errorf("%q: exit code %d, want %d and %q in stderr:\n%s", test.args, code, exitUsage, test.want, errs)
		}
	}
}

// TestExactConfig: the config file can name classes of rules, and set a window for each
// name.
func TestExactConfig(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "c.yaml")
	text := "exact:\n  - seeds,sitemaps\n  - gov: host=*.gov\n  - 're=/a{1,2}/'\nwindow:\n  gov: 24h\n  seeds: 7d\n"
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	o := new(options)
	flags := crawlFlags(o)
	if err := flags.Set("config", name); err != nil {
		t.Fatal(err)
	}
	if _, err := readLayers(t.Context(), flags, nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{"seeds", "sitemaps", "gov: host=*.gov", "re=/a{1,2}/"}; !slices.Equal(o.settings.Exact, want) {
		t.Errorf("rules %q, want %q", o.settings.Exact, want)
	}
	slices.Sort(o.settings.Windows)
	if want := []string{"gov=24h", "seeds=7d"}; !slices.Equal(o.settings.Windows, want) {
		t.Errorf("windows %q, want %q", o.settings.Windows, want)
	}
	for _, wrong := range []string{"exact: {gov: [a]}", "exact: [[seeds]]", "exact: [{'a b': all}]", "exact: [{host=*.gov: gov}]", "window: {seeds: [1h]}", "exact: [seeds, seeds]"} {
		if err := os.WriteFile(name, []byte(wrong), 0o644); err != nil {
			t.Fatal(err)
		}
		flags := crawlFlags(new(options))
		if err := flags.Set("config", name); err != nil {
			t.Fatal(err)
		}
		if _, err := readLayers(t.Context(), flags, nil); err == nil || !strings.Contains(err.Error(), ":1: ") {
			t.Errorf("config %s: error %v, want one with the line number 1", wrong, err)
		}
	}
}

// TestWindowOfSeed: a finished seed can be fetched once more after the time in --window. The
// command explain names the rule of --exact that matches the seed.
func TestWindowOfSeed(t *testing.T) {
	t.Parallel()
	address := site(t)
	dir := crawled(t, address, "--max-depth", "0", "--exact", "first: host=a.test", "--window", "first=1s", "http://a.test/ok")
	again := func(args ...string) string {
		code, _, errs := run(t, "", slices.Concat([]string{"crawl", "--dir", dir, "--connect-to", "*.test=" + address}, args)...)
		if code != exitOK {
			t.Fatalf("crawl %q: exit code %d: %s", args, code, errs)
		}
		return errs
	}
	records := func() int {
		_, out, _ := run(t, "", "output", "--all-rounds", "--dir", dir)
		return strings.Count(out, "\n")
	}
	if code, _, errs := run(t, "", "crawl", "--dir", dir, "--window=", "http://a.test/ok"); code != exitUsage || !strings.Contains(errs, `--window is ["first=1s"] there`) {
		t.Errorf("a run without the window: exit code %d: %s, want %d and the window", code, errs, exitUsage)
	}
	for deadline := time.Now().Add(time.Minute); records() < 2; {
		if time.Now().After(deadline) {
			t.Fatal("the seed was not fetched again, although its window of 1 s has ended")
		}
		again("http://a.test/ok") // with the window of the first run
	}
	if _, out, _ := run(t, "", "output", "--dir", dir); !strings.Contains(out, `"round":1`) {
		t.Errorf("output prints %s, want a record of round 1", out)
	}
	if code, out, errs := run(t, "", "status", "--audit", "--dir", dir); code != exitOK {
		t.Errorf("audit: exit code %d: %s%s", code, out, errs)
	}
	if _, out, _ := run(t, "", "explain", "--dir", dir, "http://a.test/ok"); !strings.Contains(out, "yes: host=a.test (class first)") {
		t.Errorf("explain prints %s, want the class and the rule of the URL", out)
	}
}
