package cli

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher"
)

// run calls Run and returns its exit code and its output.
func run(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestCommandsHaveHelp(t *testing.T) {
	t.Parallel()
	root := newRoot(streams{})
	for _, cmd := range root.Commands() {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s has the short description %q, want one without a period at the end", cmd.Name(), cmd.Short)
		}
		code, out, _ := run(t, "", cmd.Name(), "--help")
		if code != 0 || out == "" {
			t.Errorf("%s --help: exit code %d, output %q", cmd.Name(), code, out)
		}
	}
}

// TestFullDisk: a command whose output cannot be written fails.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"--version"}, {"--help"}, {"help", "crawl"}, {"completion", "bash"}, {"size", "--urls", "1M"}} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			if os.Getenv("CRAWLER_TEST_SERVERS") == "require" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
		var errs bytes.Buffer
		if code := Run(t.Context(), args, strings.NewReader(""), full, &errs); code != exitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%q: exit code %d, want %d and the cause: %s", args, code, exitFailed, &errs)
		}
		_ = full.Close()
	}
}

// TestCrawlHelp: the help text fits a terminal, and each flag of a crawl has a
// description.
func TestCrawlHelp(t *testing.T) {
	t.Parallel()
	_, out, _ := run(t, "", "crawl", "--help")
	for line := range strings.Lines(out) {
		if len(line) > helpWidth+1 {
			t.Errorf("line of %d bytes, want at most %d: %s", len(line)-1, helpWidth, line)
		}
	}
	for _, sec := range new(options).newFlags() {
		sec.flags.VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("--%s has no description", f.Name)
			}
			if !f.Hidden && !strings.Contains(out, "--"+f.Name) {
				t.Errorf("--%s is not in the output of crawl --help", f.Name)
			}
		})
	}
}

// TestFixedFlagsExist: every name in the lists of flags is the name of a flag.
func TestFixedFlagsExist(t *testing.T) {
	t.Parallel()
	flags := crawlFlags(new(options))
	for _, name := range slices.Concat(fixedNames, sharedOnly, connectionFlags, forOneRun) {
		if flags.Lookup(name) == nil {
			t.Errorf("a list of flags has --%s, which is not a flag of crawl", name)
		}
	}
}

func crawlFlags(o *options) *pflag.FlagSet {
	flags := pflag.NewFlagSet("crawl", pflag.ContinueOnError)
	flags.SortFlags = false
	for _, sec := range o.newFlags() {
		flags.AddFlagSet(sec.flags)
	}
	return flags
}

// TestSettingsSurviveAdoption: a crawl that is resumed keeps its stored settings unchanged,
// whatever their values.
func TestSettingsSurviveAdoption(t *testing.T) {
	t.Setenv(urlsVariable, "")
	address := site(t)
	for _, args := range [][]string{
		nil,
		{"--delay", "90s", "--urls", "12345", "--fpr", "0.1%", "--growth", "off", "--latency-factor", "0.5", "--robots", "ignore"}, // no wait after robots.txt
		{"--include", "a,b", "--include", `"q"`, "--exclude", "x y", "--strip-param", "-", "--keep-param", "sid"},
		{"--scope", "domain", "--host-key", "domain", "--robots", "ignore", "--max-per-host", "10k", "--max-depth", "0", "--sort-query"},
		{"--max-hosts-per-domain", "0", "--max-url-bytes", "0", "--max-path-repeats", "0", "--max-params", "7", "--max-years-ahead", "0", "--allow-port", "25,26"},
		{"--max-years-ahead", "-1", "--max-crawl-delay", "0", "--delay", "0", "--sitemaps", "--assets", "--exact", "gov: host=*.gov", "--exact", "seeds"},
	} {
		dir := crawled(t, address, append(args, "--max-pages", "1", "http://a.test/")...)
		before, err := os.ReadFile(filepath.Join(dir, crawlFile))
		if err != nil {
			t.Fatal(err)
		}
		if code, _, errs := run(t, "", "crawl", "--dir", dir, "--max-time", "1ns"); code != exitOK {
			t.Errorf("%q: resumed without these flags: exit code %d: %s", args, code, errs)
		}
		if code, _, errs := run(t, "", slices.Concat([]string{"crawl", "--dir", dir, "--max-time", "1ns"}, args)...); code != exitOK {
			t.Errorf("%q: resumed with these flags: exit code %d: %s", args, code, errs)
		}
		if after, err := os.ReadFile(filepath.Join(dir, crawlFile)); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%q: resuming changed the settings from\n%s to\n%s (%v)", args, before, after, err)
		}
	}
}

// TestOrderOfFlagSources: the environment can set lists too, and a flag overrides the
// environment.
func TestOrderOfFlagSources(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(config, []byte("delay: 3s\nretries: 1\ntimeout: 5s\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := new(options)
	flags := crawlFlags(o)
	if err := flags.Parse([]string{"--config", config, "--timeout", "7s"}); err != nil {
		t.Fatal(err)
	}
	l, err := readLayers(t.Context(), flags, []string{"CRAWLER_RETRIES=2", "CRAWLER_TIMEOUT=6s", "CRAWLER_TYPES=a/b,c/d", "CRAWLER_HEADER=A: b, c", "CRAWLER_CONTACT=", "HOME=/"})
	if err != nil {
		t.Fatal(err)
	}
	if o.settings.Delay.String() != "3s" || o.settings.Retries != 2 || o.settings.Timeout.String() != "7s" || len(o.settings.Types) != 2 {
		t.Errorf("delay %v, retries %d, timeout %v, types %q; want 3s, 2, 7s and two types",
			o.settings.Delay, o.settings.Retries, o.settings.Timeout, o.settings.Types)
	}
	if want := (http.Header{"A": {"b, c"}}); !reflect.DeepEqual(o.settings.Headers, want) {
		t.Errorf("headers are %q, want %q", o.settings.Headers, want)
	}
	for name, want := range map[string]string{"delay": config + ":1", "retries": "CRAWLER_RETRIES", "timeout": fromFlag, "contact": ""} {
		if l.from[name] != want {
			t.Errorf("source of %s is %q, want %q", name, l.from[name], want)
		}
	}
}

func TestResumeLine(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a b.txt", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := new(options)
	flags := crawlFlags(o)
	if err := flags.Parse([]string{"--delay", "1s", "--dir", "it's", "--max-pages", "5", "--compress", "--seeds", "a b.txt",
		"-H", "Cookie: x", "-H", "X-Odd: secret", "-H", "DNT: 1", "--types", "a/b,c/d", "http://a.test/?q"}); err != nil {
		t.Fatal(err)
	}
	l, err := readLayers(t.Context(), flags, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{plan: &plan{options: o, layers: l, at: inDirectory(o.dirFlag)}}
	r.allFed.Store(true)
	want := `crawler crawl --dir 'it'\''s' --compress=true --max-pages 5 --types a/b --types c/d -H 'Dnt: 1'`
	if got := r.resumeLine(fetcher.Stopped); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r.allFed.Store(false)
	want = want + ` --seeds 'a b.txt' 'http://a.test/?q'`
	if got := r.resumeLine(fetcher.Stopped); got != want {
		t.Errorf("with seeds left: got  %s\nwant %s", got, want)
	}
}

// TestResumeLineOfWorker: the line that resumes a worker of a shared crawl names its
// crawl and its directory, and contains no secret.
func TestResumeLineOfWorker(t *testing.T) {
	t.Parallel()
	o := new(options)
	flags := crawlFlags(o)
	if err := flags.Parse([]string{"--redis", "redis://u:hush@h,i:7/0", "--name", "n", "--redis-password-file", "p w", "--partitions", "3",
		"--max-queued", "1k", "http://a.test/"}); err != nil {
		t.Fatal(err)
	}
	l, err := readLayers(t.Context(), flags, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := location{Location: crawl.Location{Redis: &crawl.Redis{URL: o.redis, Name: o.name, Password: "hush"}}, names: &o.sharedFlags}
	r := &running{plan: &plan{options: o, layers: l, at: at}, dir: "n.crawl/h-1"}
	r.allFed.Store(true)
	want := program() + ` crawl --redis redis://h,i:7/0 --name n --redis-password-file 'p w' --dir n.crawl/h-1 --max-queued 1k`
	if got := r.resumeLine(fetcher.Stopped); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestInterruptedSeed: if the context ends while the command seed waits for input, the
// exit code is that of an interruption, not of a failure.
func TestInterruptedSeed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x.crawl")
	if code, _, errs := run(t, "", "crawl", "--dir", dir, "--urls", "10k", "--retries", "0", "--robots", "ignore", "--delay", "0",
		"--connect-to", "*=127.0.0.1:1", "http://a.test/"); code != exitUnreached {
		t.Fatalf("crawl: exit code %d, want %d: %s", code, exitUnreached, errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdin := readerFunc(func([]byte) (int, error) { cancel(); select {} }) // a terminal without input
	var out, errs bytes.Buffer
	if code := Run(ctx, []string{"seed", "--dir", dir, "--seeds", "-"}, stdin, &out, &errs); code != exitInt {
		t.Errorf("interrupted seed: exit code %d, want %d: %s%s", code, exitInt, &out, &errs)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
