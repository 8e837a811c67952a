package cli

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/crawl/settings"
)

// keptPage has the table of the flags by what a later run keeps of them.
const keptPage = "docs/reference/config.md"

// TestEveryFlagHasKeeping: the table on the page lists every flag of a crawl once, in the group that
// the program has it in.
func TestEveryFlagHasKeeping(t *testing.T) {
	t.Parallel()
	listed := make(map[string]string)
	for _, row := range regexp.MustCompile(`(?m)^\| (fixed|crawl|directory|run) \|(.*)\|$`).FindAllStringSubmatch(readText(t, keptPage), -1) {
		for _, flag := range regexp.MustCompile("`--([a-z-]+)`").FindAllStringSubmatch(row[2], -1) {
			if listed[flag[1]] != "" {
				t.Errorf("the page lists --%s twice", flag[1])
			}
			listed[flag[1]] = row[1]
		}
	}
	for _, sec := range new(options).newFlags() {
		sec.flags.VisitAll(func(f *pflag.Flag) {
			want := "run"
			switch {
			case slices.Contains(fixedNames, f.Name):
				want = "fixed"
			case slices.Contains(laterNames, f.Name):
				want = "crawl"
			case slices.Contains(hereNames, f.Name):
				want = "directory"
			}
			if got := listed[f.Name]; got != want && !f.Hidden {
				t.Errorf("the page has --%s in the group %q, want %q", f.Name, got, want)
			}
			delete(listed, f.Name)
		})
	}
	if len(listed) > 0 {
		t.Errorf("the page lists flags that crawl does not have: %q", slices.Sorted(maps.Keys(listed)))
	}
}

// laterNames and hereNames are the names of the settings that a crawl in a directory keeps as defaults of later
// runs, or may keep in Redis.
var (
	laterNames = settings.Names(func(row *settings.Row) bool { return row.In(false, false) == settings.Later })
	hereNames  = settings.Names(func(row *settings.Row) bool { return row.Kept == settings.Here })
)

// laterValues has a value for each flag that is a default of later runs.
var laterValues = map[string]string{
	"rotate": "1MiB", "compress": "true", "links": "true", "save": "html", "field": "price=.price", "text": "true", "rate": "12.5",
	"bandwidth": "1MiB", "backoff": "2s", "backoff-max": "1m", "dead-after": "9", "timeout": "5s", "header-timeout": "4s", "min-rate": "0",
	"max-body": "1MiB", "retries": "0", "types": "*", "header": "Accept-Language: de", "user-agent": "archive", "contact": "me@a.test",
	"check-external": "true", "skip-duplicates": "true", "preferences": "full", "content-use": "search", "recrawl": "7d", "recrawl-every": "2h..30d", "purge-gone": "9d", "max-external": "500", "max-queued": "5k", "redis-wait": "1",
	"connect-to": "*.a.test=127.0.0.1:9", "allow-private": "true", "proxy": "http://proxy.test:3128", "proxy-http": "absolute", "dns": "127.0.0.99:53",
	"allow-net": "10.99.0.0/16", "allow-port": "6379", "insecure-host": "*.b.test", "bind": "127.0.0.98", "sign-reuse": "5s", "cookie-jar": "true",
	"cookie-domain": "*.a.test", "save-cookies": "true", "logged-out": "/login",
	"ca": "", "sign": "", "signature-agent": "", "cookies": "", "cookie-jar-file": "", "logins": "", // these need files: crawl.TestLaterRunHasDefaults
}

// TestBareCommandKeepsFlags: the settings of a command that names only the crawl are those of the
// first run, and 'crawler config' names where they come from. A flag that is given again counts, and
// the run says so.
func TestBareCommandKeepsFlags(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a.crawl")
	first := []string{"crawl", "--dir", dir, "--urls", "1000", "--max-time", "1ms", "http://a.test/"}
	for _, name := range slices.Concat(laterNames, hereNames) {
		value, known := laterValues[name]
		if !known {
			t.Fatalf("the test has no value for --%s", name)
		}
		if value != "" && !slices.Contains(sharedOnly, name) {
			first = append(first, "--"+name+"="+value)
		}
	}
	if code, _, errs := run(t, "", first...); code == exitUsage || code == exitFailed {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	_, out, errs := run(t, "", "config", "--dir", dir)
	for _, name := range slices.Concat(laterNames, hereNames) {
		value := laterValues[name]
		source := "crawl.json"
		if slices.Contains(hereNames, name) {
			source = "machine.json"
		}
		line := regexp.MustCompile(fmt.Sprintf(`(?m)^%s +\[?%s\]? +%s$`, name, regexp.QuoteMeta(value), source))
		if value != "" && !slices.Contains(sharedOnly, name) && !line.MatchString(out) {
			t.Errorf("--%s=%s is not kept: %s%s", name, value, out, errs)
		}
	}

	code, _, errs := run(t, "", "crawl", "--dir", dir, "--max-time", "1ms", "--text=false", "--rate", "0", "--allow-private=false")
	if code == exitUsage || code == exitFailed {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, line := range []string{
		"for this run, --text is false, not true as stored\n",
		"for this run, --rate is 0, not 12.5 as stored\n",
		"for this run, --allow-private is false, not true as stored\n",
	} {
		if strings.Count(errs, line) != 1 {
			t.Errorf("the run does not say %q once: %s", line, errs)
		}
	}
	if n := strings.Count(errs, "for this run, "); n != 3 {
		t.Errorf("the run names %d overrides, want 3: %s", n, errs)
	}

	// A setting of the policy is the same for all runs, and the message has the command that changes it.
	code, _, errs = run(t, "", "crawl", "--dir", dir, "--header", "Accept: x", "--delay", "9s")
	if code != exitUsage || !strings.Contains(errs, "crawler set --dir "+dir+" delay=9s 'header=Accept: x' 'header=Accept-Language: de'\n") {
		t.Errorf("exit code %d: %s; want %d and the command", code, errs, exitUsage)
	}
	if code, out, errs := run(t, "", "set", "--dir", dir, "--why", "slower", "delay=9s", "header=Accept: x", "exclude=/a/"); code != exitOK ||
		!strings.Contains(out, "version 1 of the policy\n") || !strings.Contains(out, "  delay: 1s -> 9s\n") || !strings.Contains(out, "stricter: exclude;") {
		t.Errorf("set: exit code %d: %s%s", code, out, errs)
	}
	if code, out, errs := run(t, "", "config", "--dir", dir, "--history"); code != exitOK || !strings.Contains(out, "  slower\n  exclude: [] -> [\"/a/\"]\n  delay: 1s -> 9s\n") {
		t.Errorf("config --history: exit code %d: %s%s", code, out, errs)
	}
	if code, _, errs := run(t, "", "crawl", "--dir", dir, "--max-time", "1ms", "--delay", "9s"); code == exitUsage || code == exitFailed {
		t.Errorf("a run with the new delay: exit code %d: %s", code, errs)
	}
	if code, _, errs := run(t, "", "set", "--dir", dir, "--from", "0", "delay=1s"); code != exitFailed || !strings.Contains(errs, "made version 1 at") {
		t.Errorf("set from version 0: exit code %d: %s", code, errs)
	}
}

// TestSecretsAreNamed: a command that lacks secrets of the first run names them and stops, and
// --anyway goes on.
func TestSecretsAreNamed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a.crawl")
	command := []string{"crawl", "--dir", dir, "--max-time", "1ms"}
	first := slices.Concat(command, []string{"--urls", "1000", "-H", "Cookie: hush", "--proxy", "http://me:hush@127.0.0.1:1", "http://a.test/"})
	if code, _, errs := run(t, "", first...); code == exitUsage || code == exitFailed {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	code, _, errs := run(t, "", command...)
	if code != exitUsage || !strings.Contains(errs, "--proxy, the header Cookie") || !strings.Contains(errs, "--anyway") || strings.Contains(errs, "hush") {
		t.Errorf("exit code %d, want %d with the names of the proxy and the header: %s", code, exitUsage, errs)
	}
	if code, _, errs := run(t, "", append(command, "--anyway")...); code == exitUsage || code == exitFailed {
		t.Errorf("--anyway: exit code %d: %s", code, errs)
	}
}
