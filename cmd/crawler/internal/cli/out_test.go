package cli

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// smallCrawl crawls a site of three pages into x.crawl of the working
// directory, and returns the command that crawls it again.
func smallCrawl(t *testing.T, more ...string) (args []string) {
	t.Helper()
	connectTo, _, release := heldSite(t)
	release()
	args = []string{"crawl", "--dir", "x.crawl", "--urls", "10k", "--delay", "0", "--robots", "ignore", "--connect-to", connectTo}
	code, out, errs := run(t, "", append(append(args, more...), "http://a.test/")...)
	if code != exitOK {
		t.Fatalf("crawl: exit code %d: %s%s", code, out, errs)
	}
	return args
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOutFileIsWhole: the file of --out gets the complete output of a command, and keeps
// its mode.
func TestOutFileIsWhole(t *testing.T) {
	t.Chdir(t.TempDir())
	smallCrawl(t)
	for _, command := range []string{
		"output --dir x.crawl", "output --dir x.crawl --json", "status --dir x.crawl", "status --dir x.crawl --json", "status --dir x.crawl --audit",
		"explain --dir x.crawl http://a.test/a", "size --urls 1M",
	} {
		args := strings.Fields(command)
		_, want, _ := run(t, "", args...)
		if err := os.WriteFile("out", []byte("before"), 0o640); err != nil {
			t.Fatal(err)
		}
		code, out, errs := run(t, "", append(args, "--out", "out")...)
		if got := readFile(t, "out"); code != exitOK || got != want || want == "" || out != "" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; the file has\n%swant\n%s", command, code, out, errs, got, want)
		}
		if _, dash, _ := run(t, "", append(args, "--out", "-")...); dash != want {
			t.Errorf("%s --out -: %q, want %q", command, dash, want)
		}
	}
	if info, err := os.Stat("out"); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the replaced file has mode %v (%v), want 0640 as before", info.Mode(), err)
	}
	if code, _, errs := run(t, "", "report", "--dir", "x.crawl", "--probe", "1ms", "--json", "--out", "report"); code != exitOK || !strings.HasPrefix(readFile(t, "report"), "{\n") {
		t.Errorf("report: exit code %d, %s", code, errs)
	}
	if temps, _ := filepath.Glob("*.tmp"); temps != nil {
		t.Errorf("temporary files are left: %q", temps)
	}
}

// TestOutFileIsUnchangedAfterError: after an error, the file of --out is unchanged. A link
// stays a link, and a device stays a device.
func TestOutFileIsUnchangedAfterError(t *testing.T) {
	t.Chdir(t.TempDir())
	smallCrawl(t)
	before := "before"
	if err := os.WriteFile("target", []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", "link"); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"output --dir none.crawl --out target":          "no crawl in none.crawl",
		"output --dir x.crawl --out x.crawl":            "--out: x.crawl is a directory, want a file",
		"output --dir x.crawl --out no/such/file":       "--out: open no/such/file",
		"status --dir x.crawl --watch --out target":     "--watch goes on: leave one of them out",
		"explain --dir none.crawl a.test --out link":    "no crawl in none.crawl",
		"export --out target none.crawl":                "none.crawl",
		"size --urls 10 --lost 10 --out target":         "no filter is needed",
		"bench nonsense --out target":                   "is nothing to measure",
		"report --dir x.crawl --probe 0s --out target":  "--probe",
		"crawl --dir x.crawl --out no/such/file a.test": "--out: open no/such/file",
	} {
		code, out, errs := run(t, "", strings.Fields(command)...)
		if code != exitUsage || !strings.Contains(errs, want) || out != "" || readFile(t, "target") != before {
			t.Errorf("%s: exit code %d, want %d and %q in stderr:\n%s%s", command, code, exitUsage, want, out, errs)
		}
	}
	if temps, _ := filepath.Glob("*.tmp"); temps != nil {
		t.Errorf("temporary files are left: %q", temps)
	}
	if code, _, errs := run(t, "", "output", "--dir", "x.crawl", "--out", "link"); code != exitOK {
		t.Errorf("--out link: exit code %d: %s", code, errs)
	}
	if info, err := os.Lstat("link"); err != nil || info.Mode()&os.ModeSymlink == 0 || readFile(t, "target") == before {
		t.Errorf("--out link: the link was replaced, or its target was not written: %v, %v", info, err)
	}
	if code, _, errs := run(t, "", "output", "--dir", "x.crawl", "--out", os.DevNull); code != exitOK {
		t.Errorf("--out %s: exit code %d: %s", os.DevNull, code, errs)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Fatalf("%s was replaced: %v, %v", os.DevNull, info, err)
	}
}

// TestOutFileIsNotInACrawl: --out is refused if its file is in the directory of a crawl or
// of a worker, because the file could replace records. It is also refused if a link leads
// to such a file.
func TestOutFileIsNotInACrawl(t *testing.T) {
	t.Chdir(t.TempDir())
	again := smallCrawl(t)
	const records, journal = "x.crawl/pages.jsonl", "worker/pages.jsonl"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Symlink("x.crawl", "dir"))
	must(os.Symlink(records, "link"))
	must(os.Mkdir("worker", 0o700))
	must(os.WriteFile("worker/worker.json", []byte("{}"), 0o600))
	must(os.WriteFile(journal, []byte("journal\n"), 0o600))
	before := readFile(t, records)
	refused := func(name string, args ...string) {
		t.Helper()
		code, out, errs := run(t, "", args...)
		if code != exitUsage || out != "" || !strings.Contains(errs, name+" is in the directory of a crawl, where only the crawl writes: name a file in another directory") {
			t.Errorf("%q: exit code %d, want %d and a message that %s is in the directory of a crawl: %s%s", args, code, exitUsage, name, out, errs)
		}
	}
	for out, name := range map[string]string{
		records: records, "dir/pages.jsonl": records, "link": records, "x.crawl/new.csv": "x.crawl/new.csv", journal: journal,
	} {
		refused(name, "output", "--dir", "x.crawl", "--columns", "url", "--out", out)
	}
	refused(records, "links", "--dir", "x.crawl", "--out", records)
	refused(journal, "export", "--out", journal, "worker")
	refused(records, append(again, "--out", records, "http://a.test/new")...)
	refused(records, append(again, "--refused", records, "http://a.test/new")...)
	t.Chdir("x.crawl")
	refused("pages.jsonl", "output", "--out", "pages.jsonl")
	t.Chdir("..")
	if readFile(t, records) != before || readFile(t, journal) != "journal\n" {
		t.Errorf("the records of the crawl are\n%s\nand of the worker %q, want them unchanged:\n%s", readFile(t, records), readFile(t, journal), before)
	}
}

// TestOutFileIsNotInANewCrawl: a crawl that does not exist yet refuses files of --out and
// --refused in its directory and leaves none there. Then the same crawl can begin without
// these flags.
func TestOutFileIsNotInANewCrawl(t *testing.T) {
	for _, flag := range []string{"--out", "--refused"} {
		for _, exists := range []bool{true, false} {
			t.Chdir(t.TempDir())
			if exists {
				if err := os.Mkdir("x.crawl", 0o700); err != nil {
					t.Fatal(err)
				}
			}
			const name = "x.crawl/pages.jsonl"
			code, _, errs := run(t, "", "crawl", "--dir", "x.crawl", "--robots", "ignore", flag, name, "http://a.test/")
			if code != exitUsage || !strings.Contains(errs, flag+": "+name+" is in the directory of a crawl") {
				t.Errorf("%s, directory exists: %t: exit code %d, want %d and a message about %s: %s", flag, exists, code, exitUsage, name, errs)
			}
			if left, _ := filepath.Glob("x.crawl/*"); len(left) > 0 {
				t.Errorf("%s, directory exists: %t: the refused crawl left %q", flag, exists, left)
			}
			smallCrawl(t)
		}
	}
}

// TestOutFileHasFailedAudit: the output of a command is also written to the file if the
// command returns an error of the type printed, as a failed audit does.
func TestOutFileHasFailedAudit(t *testing.T) {
	t.Parallel()
	out := &stdout{w: httptest.NewRecorder()}
	name := filepath.Join(t.TempDir(), "audit")
	err := out.toFile(name, func() error {
		_, err := out.Write([]byte("differ\n"))
		return printed{&exitError{exitFailed, err}}
	})
	if err == nil || readFile(t, name) != "differ\n" {
		t.Errorf("error %v, the file has %q; want an error, and the output in the file", err, readFile(t, name))
	}
}

// TestCrawlOut: crawl --out FILE appends each record to a file, in addition to the
// crawl's own file.
func TestCrawlOut(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("records", []byte(`{"cut off`), 0o600); err != nil {
		t.Fatal(err)
	}
	again := smallCrawl(t, "--out", "records")
	want := readFile(t, "x.crawl/pages.jsonl")
	if got := readFile(t, "records"); got != "{\"cut off\n"+want || strings.Count(want, "\n") != 3 {
		t.Errorf("the file has\n%swant the line that was cut off, and\n%s", got, want)
	}
	if code, _, errs := run(t, "", append(again, "--out", "records", "http://a.test/new")...); code != exitOK {
		t.Fatalf("second run: exit code %d: %s", code, errs)
	}
	if got := readFile(t, "records"); got != "{\"cut off\n"+readFile(t, "x.crawl/pages.jsonl") {
		t.Errorf("after a second run the file has\n%swant the line that was cut off, and the records of both runs", got)
	}
	if code, out, errs := run(t, "", append(again, "--out", "-", "http://a.test/more")...); code != exitOK || strings.Count(out, "\n") != 1 {
		t.Errorf("--out -: exit code %d, stdout %q, want one record; stderr %s", code, out, errs)
	}
}
