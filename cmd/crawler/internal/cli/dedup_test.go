package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// mustDedup runs `crawler dedup`, which must succeed.
func mustDedup(t *testing.T, in string, args ...string) (out, report string) {
	t.Helper()
	code, out, report := run(t, in, append([]string{"dedup"}, args...)...)
	if code != exitOK {
		t.Fatalf("dedup %v: exit code %d: %s", args, code, report)
	}
	return out, report
}

// dedupFault runs `crawler dedup` without input, and checks that it fails with a code and
// with texts in its messages.
func dedupFault(t *testing.T, code int, args []string, want ...string) {
	t.Helper()
	got, out, errs := run(t, "", append([]string{"dedup"}, args...)...)
	if got != code || out != "" {
		t.Errorf("dedup %v: exit code %d, printed %q, want exit code %d", args, got, out, code)
	}
	for _, want := range want {
		if !strings.Contains(errs, want) {
			t.Errorf("dedup %v: %s\nwant %q", args, errs, want)
		}
	}
}

// numberedURLs returns n lines of URLs, all different.
func numberedURLs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "https://host%d.example.org/section/%d\n", i%97, i)
	}
	return b.String()
}

// TestDedupFlags: each flag changes what is printed.
func TestDedupFlags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args      []string
		in, out   string
		malformed int
	}{
		"order":                {nil, "http://b.test/\nhttp://a.test/\nhttp://b.test/\nhttp://c.test/\n", "http://b.test/\nhttp://a.test/\nhttp://c.test/\n", 0},
		"spellings are one":    {nil, "HTTP://A.test:80/x/../y#f\nhttp://a.test/y\n", "HTTP://A.test:80/x/../y#f\n", 0},
		"empty lines":          {nil, "\n \t\n\r\nhttp://a.test/\n\n", "http://a.test/\n", 0},
		"malformed":            {nil, "http://[/\nmailto:a@b.test\na.test\n#\nhttp://a.test/\nhttp://a.test/\xff\n", "http://a.test/\n", 5},
		"canonical":            {[]string{"--print=canonical"}, "HTTP://A.test:80/x/../y#f\n http://a.test/y\t\n", "http://a.test/y\n", 0},
		"zero bytes":           {[]string{"-0"}, "http://a.test/\x00http://b.test/\n\x00http://a.test/", "http://a.test/\x00http://b.test/\n\x00", 0},
		"parameters kept":      {[]string{"--keep-param=utm_*"}, "http://a.test/?utm_source=1\nhttp://a.test/\n", "http://a.test/?utm_source=1\nhttp://a.test/\n", 0},
		"parameters stripped":  {[]string{"--strip-param=q"}, "http://a.test/?q=1\nhttp://a.test/?q=2\n", "http://a.test/?q=1\n", 0},
		"order of a query":     {[]string{"--sort-query"}, "http://a.test/?b=1&a=1\nhttp://a.test/?a=1&b=1\n", "http://a.test/?b=1&a=1\n", 0},
		"exact":                {[]string{"--exact"}, "http://a.test/\nhttp://a.test\nhttp://b.test/\n", "http://a.test/\nhttp://b.test/\n", 0},
		"few bits, small rate": {[]string{"--urls=1", "--fpr=1e-9"}, numberedURLs(3000) + numberedURLs(3000), numberedURLs(3000), 0},
	} {
		t.Run(name, func(t *testing.T) {
			args := c.args
			if name != "exact" { // a small filter is made sooner
				args = append([]string{"--urls=1000"}, args...)
			}
			out, report := mustDedup(t, c.in, args...)
			if out != c.out {
				t.Errorf("printed %.200q, want %.200q", out, c.out)
			}
			if want := fmt.Sprintf("%d malformed", c.malformed); !strings.Contains(report, want) {
				t.Errorf("the report has not %q:\n%s", want, report)
			}
		})
	}
}

func TestDedupReportOfMalformedLines(t *testing.T) {
	t.Parallel()
	var in strings.Builder
	for i := range 25 {
		fmt.Fprintf(&in, "http://a.test/%d\nhttp://bad host/\n", i)
	}
	_, report := mustDedup(t, in.String())
	if n := strings.Count(report, "malformed URL"); n != 10 {
		t.Errorf("%d lines are reported one by one, want 10", n)
	}
	for _, want := range []string{"line 2: ", "line 20: ", "and 15 more malformed lines\n50 lines", "25 new, 0 seen, 25 malformed"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report has not %q:\n%s", want, report)
		}
	}
}

func TestDedupFaultsOfFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want []string }{
		{[]string{"--print=x"}, []string{"--print", "want input or canonical"}},
		{[]string{"--exact", "--urls=1G"}, []string{"--exact has no filter"}},
		{[]string{"--urls=100T"}, []string{"--urls", "want a whole number from 1 to 1.09T"}},
		{[]string{"--fpr=1e-15"}, []string{"--fpr", "want a probability from 1e-12"}},
		{[]string{"--urls=-1"}, []string{"want a whole number"}},
		{[]string{"--strip-param=a*b"}, []string{"a*b"}},
		{[]string{"file"}, []string{`"file" is an argument, want URLs on stdin`}},
	} {
		dedupFault(t, exitUsage, c.args, c.want...)
	}
}

// TestDedupSettingsAreAdopted: a run without settings uses those of its directory. A run can
// also be given the same settings again.
func TestDedupSettingsAreAdopted(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--urls=1000"}, {"--exact"}} {
		dir := filepath.Join(t.TempDir(), "not", "there")
		all := numberedURLs(500)
		half := len(numberedURLs(250))
		first := append([]string{"--dir", dir}, args...)
		if out, _ := mustDedup(t, all[:half], first...); out != all[:half] {
			t.Errorf("%v: the first run printed %d bytes, want all %d", args, len(out), half)
		}
		if out, _ := mustDedup(t, all, "--dir", dir); out != all[half:] {
			t.Errorf("%v: the second run printed %d bytes, want the %d new ones", args, len(out), len(all)-half)
		}
		if out, report := mustDedup(t, all, first...); out != "" || !strings.Contains(report, "500 URLs known") {
			t.Errorf("%v: the third run printed %q:\n%s", args, out, report)
		}
	}
}

// TestDedupFormIsKept: the canonical form of the first run applies to the later runs.
func TestDedupFormIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustDedup(t, "http://a.test/?q=1\n", "--dir", dir, "--strip-param=q")
	if out, _ := mustDedup(t, "http://a.test/?q=2\n", "--dir", dir); out != "" {
		t.Errorf("printed %q: the second run has another form than the first", out)
	}
	dedupFault(t, exitUsage, []string{"--dir", dir, "--strip-param=r"}, "canonical form")
}

// TestDedupVersionOfForm: a directory is refused if its canonical form of URLs has another
// version or other Unicode tables.
func TestDedupVersionOfForm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustDedup(t, "http://a.test/\n", "--dir", dir, "--sort-query")
	card := filepath.Join(dir, "dedup.json")
	text, err := os.ReadFile(card)
	if err != nil {
		t.Fatal(err)
	}
	own := []byte("v2 unicode=" + canon.Tables + " ")
	if !bytes.Contains(text, own) {
		t.Fatalf("no %q in %s", own, text)
	}
	for other, want := range map[string]string{"v1 ": "it has version 1", "v2 unicode=9.0.0 ": "its host names follow Unicode 9.0.0"} {
		if err := os.WriteFile(card, bytes.Replace(text, own, []byte(other), 1), 0o644); err != nil {
			t.Fatal(err)
		}
		dedupFault(t, exitUsage, []string{"--dir", dir}, want)
	}
}

func TestDedupOtherSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, then, want []string }{
		{[]string{"--urls=1000"}, []string{"--urls=2000", "--fpr=0.1"}, []string{"--urls is 1000 there, 2000 here", "--fpr is 1e-06 there, 0.1 here"}},
		{[]string{"--urls=1000"}, []string{"--exact"}, []string{"--exact is false there, true here"}},
		{[]string{"--exact"}, []string{"--urls=1000"}, []string{"--exact is true there, false here"}},
		{[]string{"--exact"}, []string{"--exact=false"}, []string{"--exact is true there, false here"}},
	} {
		dir := t.TempDir()
		mustDedup(t, "http://a.test/\n", append(c.first, "--dir", dir)...)
		dedupFault(t, exitUsage, append(c.then, "--dir", dir), "fixed:\ncrawler:   "+strings.Join(c.want, "\ncrawler:   ")+"\ncrawler: leave")
	}
}

// TestDedupForeignDirectoryIsRefused: the directory of a crawl is refused, and so is a
// directory with a dedup.json that this program cannot read.
func TestDedupForeignDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "crawl.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	dedupFault(t, exitFailed, []string{"--dir", dir}, "has crawl.json but no dedup.json")
	dir = t.TempDir()
	for text, want := range map[string]string{
		`{"format": 1}`: "format 1", `{`: "unexpected end", `{"format": 2, "id": "xx"}`: "32 hex digits",
	} {
		if err := os.WriteFile(filepath.Join(dir, "dedup.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		dedupFault(t, exitUsage, []string{"--dir", dir}, want)
	}
}

// TestDedupStopsWithContext: when the context ends, the run ends with a summary and closes
// its input, even if the input sends nothing.
func TestDedupStopsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ask, questions := io.Pipe()
	answers, tell := io.Pipe()
	dir := t.TempDir()
	var report bytes.Buffer
	ended := make(chan int, 1)
	go func() { ended <- Run(ctx, []string{"dedup", "--dir", dir}, ask, tell, &report) }()
	fmt.Fprint(questions, "http://a.test/\nhttp://b.te")
	if line, err := bufio.NewReader(answers).ReadString('\n'); err != nil || line != "http://a.test/\n" {
		t.Fatal(line, err)
	}
	cancel()
	select {
	case code := <-ended:
		if code != exitInt {
			t.Errorf("exit code %d, want %d", code, exitInt)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for its input")
	}
	if !strings.Contains(report.String(), "1 new") {
		t.Errorf("no summary:\n%s", &report)
	}
	if _, err := io.WriteString(questions, "st/\n"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write to the input after the end: %v, want that it is closed", err)
	}
	if out, _ := mustDedup(t, "http://a.test/\nhttp://b.test/\n", "--dir", dir); out != "http://b.test/\n" {
		t.Errorf("the next run printed %q, want what the first did not", out)
	}
}

// TestDedupSyncsOutput: a regular file at stdout is synced before its lines are remembered,
// so an output that cannot be synced is an error.
func TestDedupSyncsOutput(t *testing.T) {
	t.Parallel()
	out, err := os.OpenFile("/proc/self/comm", os.O_WRONLY, 0) // a regular file without fsync
	if err != nil {
		if os.Getenv("CRAWLER_TEST_SERVERS") == "require" {
			t.Fatalf("no file that cannot be synced: %v", err)
		}
		t.Skipf("no file that cannot be synced: %v", err)
	}
	defer out.Close()
	var errs bytes.Buffer
	code := Run(t.Context(), []string{"dedup", "--dir", filepath.Join(t.TempDir(), "d")}, strings.NewReader("http://a.test/\n"), out, &errs)
	if code == exitOK || !strings.Contains(errs.String(), "sync the output") {
		t.Errorf("dedup into a file that cannot be synced: exit code %d: %s\nwant an error that names the sync", code, &errs)
	}
}
