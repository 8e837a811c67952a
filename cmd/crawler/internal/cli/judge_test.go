package cli

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testweb"
)

// TestJudgeOfAnEmptyLog: a log without requests proves nothing, so `crawler testweb --judge`
// fails.
func TestJudgeOfAnEmptyLog(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "requests.jsonl")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, "", "testweb", "--judge", name)
	if code != exitFailed || strings.Contains(out, "exact") || !strings.Contains(errs, name+" has no requests: ") {
		t.Errorf("exit code %d, want %d and a message that the log has no requests: %s%s", code, exitFailed, out, errs)
	}
}

// TestLogOfTestwebIsKept: `crawler testweb` empties the file of --log only if it serves the
// web.
func TestLogOfTestwebIsKept(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	t.Chdir(t.TempDir())
	const before = "{}\n"
	if err := os.WriteFile("log", []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]int{
		"--judge log": exitUsage, "--records log": exitUsage, "--expected other": exitUsage, "--listen " + taken.Addr().String(): exitFailed, "--tls --ca /nowhere/ca": exitFailed,
	} {
		code, out, errs := run(t, "", append([]string{"testweb", "--log", "log"}, strings.Fields(args)...)...)
		if code != want || readFile(t, "log") != before {
			t.Errorf("--log log %s: exit code %d, the log has %q; want %d, and %q as before: %s%s", args, code, readFile(t, "log"), want, before, out, errs)
		}
	}
}

// TestJudgeOnABusyMachine: if the records show that the server read a request late, the
// next request does not count as too early. A log can be judged while it is written.
func TestJudgeOnABusyMachine(t *testing.T) {
	t.Parallel()
	web, err := testweb.New(testweb.Config{Seed: 1, Hosts: 2, Pages: 4})
	if err != nil {
		t.Fatal(err)
	}
	const host, prompt = "h000000.test", "h000001.test"
	began := time.Date(2026, 7, 5, 12, 0, 0, 0, time.UTC)
	var log strings.Builder
	for _, r := range []struct {
		host, path string
		ms         int
	}{{host, "/robots.txt", 0}, {prompt, "/robots.txt", 0}, {prompt, "/", 1000}, {host, "/", 1300}, {host, "/robots.txt", 2050}} {
		at := time.Duration(r.ms) * time.Millisecond
		fmt.Fprintf(&log, `{"host":%q,"path":%q,"start_ns":%d,"read":%q,"status":200}`+"\n", r.host, r.path, at, began.Add(at).Format(time.RFC3339Nano))
	}
	log.WriteString(`{"host":"h0000`)
	dir := t.TempDir()
	f := testwebFlags{delay: time.Second, judge: filepath.Join(dir, "requests.jsonl")}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(f.judge, log.String())
	var out bytes.Buffer
	if err := f.judgeLog(web, &out); err == nil || !strings.Contains(out.String(), "--records FILE tells more") {
		t.Errorf("without records: error %v\n%s\nwant an error, and a hint at --records", err, out.String())
	}
	f.records = filepath.Join(dir, "pages.jsonl")
	for _, c := range []struct {
		started string // by the crawler's clock; the server reads the request at 12:00:01.300Z
		isFault bool
	}{
		{"12:00:01.050Z", false}, // 250 ms before the server reads the request
		{"12:00:01.295Z", true},
	} {
		write(f.records, fmt.Sprintf(`{"url":"http://%s/","attempts":1,"fetched_at":"2026-07-05T12:00:01Z"}
{"url":"http://%s/","attempts":1,"fetched_at":"2026-07-05T%s"}`+"\n", prompt, host, c.started))
		out.Reset()
		if err := f.judgeLog(web, &out); (err != nil) != c.isFault {
			t.Errorf("request started at %s: error %v, want an error: %t\n%s", c.started, err, c.isFault, out.String())
		}
	}
}
