package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestSharedFlagFaults: the message about each fault of the flags of a shared crawl names
// the fault, and does not contain the secret.
func TestSharedFlagFaults(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"crawl", "--redis", "redis://u:hush@127.0.0.1:1"}, "--redis needs --name, the name of the crawl"},
		{[]string{"crawl", "--name", "a"}, "--name needs --redis, the address of the server"},
		{[]string{"status", "--name", "a"}, "--name needs --redis, the address of the server"},
		{[]string{"crawl", "--redis", "redis://:hush@127.0.0.1:1", "--name", "a b"}, `--name is "a b", want 1 to 64`},
		{[]string{"seed", "--redis", "redis://127.0.0.1:1", "--name", "..", "http://a.test/"}, `--name is "..", want 1 to 64`},
		{[]string{"crawl", "--redis", "http://u:hush@127.0.0.1:1", "--name", "a"}, "begins with redis://"},
		{[]string{"crawl", "--redis", "redis://127.0.0.1:1", "--name", "a", "--redis-ca", "ca.pem"}, "--redis-ca is for a rediss:// URL"},
		{[]string{"crawl", "--redis", "redis://127.0.0.1:1", "--name", "a", "--redis-password-file", "none"}, "--redis-password-file: open none"},
		{[]string{"crawl", "--redis", "redis://127.0.0.1:1", "--name", "a", "--redis-password-file", "empty"}, "empty is empty"},
		{[]string{"crawl", "--redis-password-file", "empty", "http://a.test/"}, "--redis-ca and --redis-password-file need --redis"},
		{[]string{"crawl", "--partitions", "8", "http://a.test/"}, "--partitions is for a crawl in Redis: add --redis and --name"},
		{[]string{"crawl", "--max-queued", "8", "http://a.test/"}, "--max-queued is for a crawl in Redis"},
		{[]string{"crawl", "--partitions", "0", "http://a.test/"}, `--partitions is "0", want a whole number from 1 to 16384`},
		{[]string{"crawl", "--redis-wait", "-1", "http://a.test/"}, `--redis-wait is "-1", want a whole number of 0 or more`},
		{[]string{"crawl", "--worker", "a b", "http://a.test/"}, `--worker is "a b", want 1 to 64`},
		{[]string{"delete"}, "no crawl is named: want --redis and --name"},
		{[]string{"delete", "--redis", "redis://127.0.0.1:1", "--name", "a"}, "deletion is not confirmed: type the name on a terminal, or use --yes"},
		{[]string{"export"}, "no records: name the directories of workers, or --redis and --name"},
	} {
		code, out, errs := run(t, "", test.args...)
		if code != exitUsage || !strings.Contains(errs, test.want) || strings.Contains(out+errs, "hush") {
			t.Errorf("%q: exit code %d, want %d and %q in stderr:\n%s%s", test.args, code, exitUsage, test.want, out, errs)
		}
	}
}

// TestPasswordFile: a password in a file replaces the password in the URL.
func TestPasswordFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(name, []byte("hu sh\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at, err := (&sharedFlags{redis: "redis://u:other@h", name: "n", passwordFile: name}).location("")
	if err != nil || at.Redis.Password != "hu sh" {
		t.Errorf("location = %+v (%v), want the password of the file", at, err)
	}
}

// TestWhichCrawlIsMeant: flags override the environment, and a directory in the flags
// overrides a Redis that is only in the environment.
func TestWhichCrawlIsMeant(t *testing.T) {
	dir := crawled(t, site(t), "--max-depth", "0", "http://a.test/")
	for _, test := range []struct {
		name  string
		env   map[string]string
		args  []string
		title string // the expected title; empty means that an error is expected
	}{
		{"directory", nil, []string{"--dir", dir}, dir},
		{"redis", nil, []string{"--redis", "redis://h", "--name", "n"}, "n on redis://h"},
		{"environment", map[string]string{"CRAWLER_REDIS": "redis://h", "CRAWLER_NAME": "n"}, nil, "n on redis://h"},
		{"environment's Redis", map[string]string{"CRAWLER_REDIS": "redis://h", "CRAWLER_NAME": "n"}, []string{"--name", "m"}, "m on redis://h"},
		{"directory before environment", map[string]string{"CRAWLER_REDIS": "redis://h", "CRAWLER_NAME": "n"}, []string{"--dir", dir}, dir},
		{"Redis before the directory of records", nil, []string{"--dir", dir, "--redis", "redis://h", "--name", "n"}, "n on redis://h"},
		{"no name", map[string]string{"CRAWLER_REDIS": "redis://h"}, nil, ""},
	} {
		for name, text := range test.env {
			t.Setenv(name, text)
		}
		cmd := newRetry(streams{})
		crawl := new(target)
		cmd.ResetFlags()
		crawl.addTo(cmd)
		if err := cmd.ParseFlags(test.args); err != nil {
			t.Fatal(err)
		}
		at, err := crawl.location()
		if (err == nil) != (test.title != "") || err == nil && at.String() != test.title {
			t.Errorf("%s: location = %v (%v), want %q, or an error if this is empty", test.name, at, err, test.title)
		}
		for name := range test.env {
			t.Setenv(name, "")
		}
	}
}

// journal opens a worker's journal, which consists of its record files, in CRAWL.crawl/WORKER.
// It also returns this directory.
func journal(t *testing.T, crawl, worker string) (*record.Journal, string) {
	t.Helper()
	dir := filepath.Join(crawl+".crawl", worker)
	j, err := record.OpenJournal(record.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	card := fmt.Sprintf(`{"format": 1, "crawl": %q, "id": "abc"}`, crawl)
	if err := os.WriteFile(filepath.Join(dir, "worker.json"), []byte(card), 0o600); err != nil {
		t.Fatal(err)
	}
	return j, dir
}

func appendRecord(t *testing.T, j *record.Journal, item, lease byte, url string) *record.Record {
	t.Helper()
	r := &record.Record{URL: url, Outcome: string(frontier.OK), Status: 200, FetchedAt: time.Unix(int64(lease), 0).UTC(),
		Item: bloomstore.Fingerprint{item}, Lease: frontier.LeaseID{lease}}
	if err := j.Append(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestExportMergesWorkers: the records in the directories of several workers are printed
// as one output.
func TestExportMergesWorkers(t *testing.T) {
	t.Chdir(t.TempDir())
	one, _ := journal(t, "web", "h-1")
	two, second := journal(t, "web", "h-2")
	appendRecord(t, one, 1, 1, "http://a.test/1")
	lost := appendRecord(t, one, 2, 2, "http://a.test/lost")
	if err := one.Void(lost); err != nil {
		t.Fatal(err)
	}
	appendRecord(t, two, 2, 3, "http://a.test/2")
	appendRecord(t, two, 1, 4, "http://a.test/1")
	for _, j := range []*record.Journal{one, two} {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := run(t, "", "export", "web.crawl", second)
	if code != exitOK || strings.Count(out, "\n") != 2 || strings.Count(out, "/1") != 1 || strings.Contains(out, "/lost") {
		t.Errorf("export of two workers: exit code %d: %s%s", code, out, errs)
	}
	if want := "2 records of 2 workers: 1 fetched again, 1 taken back, 0 still to be fetched, 0 damaged\n"; errs != want {
		t.Errorf("summary %q, want %q", errs, want)
	}
	if code, _, errs := run(t, "", "status", "--dir", second); code != exitUsage || !strings.Contains(errs, "is the directory of a worker of web, a crawl in Redis") {
		t.Errorf("status of a worker's directory: exit code %d, want a usage error: %s", code, errs)
	}
	if code, _, errs := run(t, "", "export", t.TempDir()); code != exitUsage || !strings.Contains(errs, "it is not a worker's directory") {
		t.Errorf("export of a directory that is not a worker's: exit code %d: %s", code, errs)
	}
	third, foreign := journal(t, "other", "h-1")
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run(t, "", "export", "web.crawl", foreign); code != exitUsage || !strings.Contains(errs, "(abc), but") {
		t.Errorf("export of workers of two crawls: exit code %d: %s", code, errs)
	}
}
