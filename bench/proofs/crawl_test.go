package proofs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/bloomfrontier/crawler/frontier"
)

// patience returns the time after which a run of the crawler counts as hung.
func patience() time.Duration { return sized(2*time.Minute, 30*time.Minute) }

// crawl is a crawl in a directory. The real binary runs it.
type crawl struct {
	t    *testing.T
	bin  string
	dir  string
	args []string // arguments of crawler crawl, in addition to --dir
}

func newCrawl(t *testing.T, args ...string) *crawl {
	t.Helper()
	return &crawl{t: t, bin: crawlerBinary(t), dir: filepath.Join(t.TempDir(), "proof.crawl"), args: args}
}

type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	hung           func() bool
}

// command starts the binary with args. It kills the process at the end of the test.
func command(t *testing.T, bin string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience())
	p := &process{t: t, cmd: exec.CommandContext(ctx, bin, args...), hung: func() bool { return ctx.Err() != nil }}
	t.Cleanup(func() { // even if the test fails
		cancel()
		_ = p.cmd.Wait()
	})
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "CRAWLER_") })
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// start starts the crawl with its own arguments, followed by the given ones.
func (c *crawl) start(more ...string) *process {
	c.t.Helper()
	return command(c.t, c.bin, slices.Concat([]string{"crawl", "--dir", c.dir}, c.args, more)...)
}

type end struct {
	code           int  // exit code; -1 after a signal
	killed         bool // by SIGKILL
	stdout, stderr string
}

func (p *process) wait() end {
	p.t.Helper()
	err := p.cmd.Wait()
	if p.hung() {
		p.t.Fatalf("%v hangs; stderr:\n%s", p.cmd.Args[1:3], &p.stderr)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	state := p.cmd.ProcessState
	status, _ := state.Sys().(syscall.WaitStatus)
	return end{
		code: state.ExitCode(), killed: status.Signaled() && status.Signal() == syscall.SIGKILL,
		stdout: p.stdout.String(), stderr: p.stderr.String(),
	}
}

// finish runs the crawl to its end. Its exit code must be 0.
func (c *crawl) finish(more ...string) end {
	c.t.Helper()
	e := c.start(more...).wait()
	if e.code != 0 {
		c.t.Fatalf("exit code %d, want 0; stderr:\n%s", e.code, e.stderr)
	}
	return e
}

// stats returns the counters of the crawl (the books), as `crawler status` prints them.
func (c *crawl) stats() frontier.Stats {
	c.t.Helper()
	e := command(c.t, c.bin, "status", "--json", "--dir", c.dir).wait()
	var status struct{ Stats frontier.Stats }
	if err := json.Unmarshal([]byte(e.stdout), &status); e.code != 0 || err != nil {
		c.t.Fatalf("crawler status: exit code %d, %v\n%s%s", e.code, err, e.stdout, e.stderr)
	}
	return status.Stats
}

// records returns the lines of all record files in dir, oldest first.
func records(t *testing.T, dir string) []byte {
	t.Helper()
	closed, err := filepath.Glob(filepath.Join(dir, "pages-*.jsonl*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(closed)
	var all bytes.Buffer
	for _, name := range append(closed, filepath.Join(dir, "pages.jsonl")) {
		if err := appendFile(&all, name); err != nil {
			t.Fatal(err)
		}
	}
	return all.Bytes()
}

func appendFile(all *bytes.Buffer, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	var in io.Reader = file
	if strings.HasSuffix(name, ".zst") {
		z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return err
		}
		defer z.Close()
		in = z
	}
	_, err = all.ReadFrom(in)
	return err
}

// line has the fields of a record that the proofs use.
type line struct {
	URL, Host   string
	Fingerprint string
	Outcome     string
	Status      int
	Attempts    int
	Round       uint32
	FetchedAt   time.Time `json:"fetched_at"`
	LinksFound  uint64    `json:"links_found"`
	LinksAdded  uint64    `json:"links_added"`
	WARC        string    `json:"warc"`
	Offset      int64     `json:"warc_offset"`
}

// id returns the id of the record's event.
func (l *line) id() string { return l.Fingerprint + "-" + strconv.Itoa(int(l.Round)) }

func parse(t *testing.T, records []byte) []line {
	t.Helper()
	var lines []line
	for decoder := json.NewDecoder(bytes.NewReader(records)); ; {
		var l line
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return lines
		} else if err != nil {
			t.Fatalf("record %d: %v", len(lines)+1, err)
		}
		lines = append(lines, l)
	}
}

// checkBooks compares the books of a finished crawl with its records. The argument seeds is
// the number of seeds. The argument offers is the maximum number of runs that offered the
// seeds to the crawl.
func checkBooks(t *testing.T, stats frontier.Stats, lines []line, seeds, offers int) {
	t.Helper()
	checkOutcomes(t, stats, lines)
	found, added := uint64(0), uint64(0)
	for _, l := range lines {
		found, added = found+l.LinksFound, added+l.LinksAdded
	}
	// The records contain the number of links that were found. In addition, the seeds count as
	// found in each run that offered them.
	if low, high := found+uint64(seeds), found+uint64(seeds*offers); stats.Found < low || stats.Found > high {
		t.Errorf("Found = %d, want %d to %d: the links that all records have, and the seeds", stats.Found, low, high)
	}
	if low, high := added, added+uint64(seeds); stats.Added < low || stats.Added > high {
		t.Errorf("Added = %d, want %d to %d: the new links that all records have, and the new seeds", stats.Added, low, high)
	}
}

// checkOutcomes compares the numbers of finished URLs in the books with the records.
func checkOutcomes(t *testing.T, stats frontier.Stats, lines []line) {
	t.Helper()
	if err := stats.Balance(); err != nil {
		t.Error(err)
	}
	written := uint64(len(lines))
	if stats.Queued+stats.Leased != 0 || stats.Done+stats.Failed != written || stats.Records != written {
		t.Errorf("queued %d, leased %d, done %d + failed %d, records %d; want queued + leased = 0, and done + failed = records = %d, the number of lines",
			stats.Queued, stats.Leased, stats.Done, stats.Failed, stats.Records, written)
	}
	outcomes := make(map[frontier.Outcome]uint64)
	for _, l := range lines {
		outcomes[frontier.Outcome(l.Outcome)]++
	}
	for outcome, n := range stats.Outcomes {
		if n != outcomes[outcome] {
			t.Errorf("the books count %d URLs with outcome %s, the records have %d", n, outcome, outcomes[outcome])
		}
	}
}

// ms formats a duration for a flag, in whole milliseconds.
func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }
