package proofs

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testweb"
)

// TestArchiveKilled repeatedly kills and resumes a crawl that keeps all answers. At the
// end, the WARC files contain the answer for each record once, exactly as it was
// served, at the place that the record names. All other answers in the files are those
// for robots.txt.
func TestArchiveKilled(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	rng := rand.New(rand.NewPCG(seed, 5))
	saw := &served{answers: make(map[string][]bodyServed)}
	// The web of a small run has no hardships (difficulties for crawlers) that cause retries,
	// because a crawl waits 20 s for retries.
	waits := testweb.Dead | sized(testweb.ServerErrors|testweb.Throttling|testweb.Resets, testweb.None)
	web := serveSite(t, testweb.Config{
		Seed: seed, Hosts: sized(12, 100), Pages: sized(400, 20_000), Hardships: testweb.All &^ waits,
		MeanBytes: sized(4<<10, 14<<10), MaxBodyBytes: maxBody, CrawlDelay: archiveDelay, LargestShare: sized(0.1, 0.02),
	}, saw.wrap)
	c := newCrawl(t, append(append(web.flags(), "--save", "all", "--save-rotate", sized("64KiB", "2MiB"), "--rotate", sized("16KiB", "256KiB"),
		"--delay", ms(archiveDelay), "--latency-factor", "0", "--max-body", strconv.Itoa(maxBody)+"B", "--backoff", "50ms", "--backoff-max", "100ms", "--dead-after", "0",
		"--retries", "3", "--concurrency", "16", "--urls", strconv.Itoa(filterSize), "--checkpoint-adds", sized("60", "1000"), "--log-level", "warn"), web.Seeds()...)...)
	kills := drawArchiveKills(rng)
	for _, k := range kills {
		c.runAndKill(web, k)
	}
	c.finish()
	figure(t, "kills", "%d: %v", len(kills), kills)

	written := records(t, c.dir)
	compareRecords(t, web.Web, written)
	lines := parse(t, written)
	checkBooks(t, c.stats(), lines, len(web.Seeds()), len(kills)+1)
	files := checkArchive(t, c.dir, lines, saw)
	if *proof {
		gowarc(t, files)
	}
}

// archiveDelay is short, because other proofs test the delay.
const archiveDelay = 20 * time.Millisecond

// drawArchiveKills returns kills in random order. Some are at the steps that write
// answers, and the others after a random number of requests.
func drawArchiveKills(rng *rand.Rand) []kill {
	most := sized(6, 100)
	kills := []kill{
		{point: "warc append", times: 1 + rng.IntN(most)}, // half of the answers are written
		{point: "warc rotate", times: 1 + rng.IntN(2)},    // a new file exists, but no commit names it
		{point: "append", times: 1 + rng.IntN(most)},      // the answers and half of their records are on disk
		{point: "commit", times: 1 + rng.IntN(most)},      // answers and records are on disk, but not committed
		{point: "open", times: 1},                         // files are truncated
	}
	if *proof {
		for range 4 {
			kills = append(kills,
				kill{point: "warc append", times: 1 + rng.IntN(most)}, kill{point: "warc rotate", times: 1 + rng.IntN(4)},
				kill{point: "committed", times: 1 + rng.IntN(most)},
			)
		}
	}
	for len(kills) < sized(6, 25) {
		kills = append(kills, kill{requests: 1 + rng.IntN(sized(60, 600))})
	}
	rng.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
	return kills
}

// checkArchive compares the WARC files in dir with the records and with the answers
// that the web sent. It returns the names of the files.
func checkArchive(t *testing.T, dir string, lines []line, saw *served) (files []string) {
	t.Helper()
	wanted, cut := make(map[place]line), 0
	for _, l := range lines {
		if (l.Status > 0) != (l.WARC != "") {
			t.Errorf("%s: status %d, WARC file %q; want a file if there is a status, and none otherwise", l.URL, l.Status, l.WARC)
		}
		if at := (place{l.WARC, l.Offset}); l.WARC != "" {
			if other, twice := wanted[at]; twice {
				t.Errorf("the answers of %s and %s are both at %+v", l.URL, other.URL, at)
			}
			wanted[at] = l
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "warc", "*"))
	if err != nil {
		t.Fatal(err)
	}
	ids, answers, robots := make(map[string]bool), 0, []warcRecord(nil)
	for _, file := range files {
		name := filepath.ToSlash(filepath.Join("warc", filepath.Base(file)))
		answer := "" // the id of the last response record; empty after its request record
		all := readWARC(t, file)
		if len(all) < 2 {
			t.Errorf("%s has %d records, want 2 or more; perhaps the file was not committed", name, len(all))
		}
		for _, r := range all {
			id := r.fields["WARC-Record-ID"]
			if ids[id] || id == "" {
				t.Errorf("%s: a record has the id %q, want one that is not empty and not used before", name, id)
			}
			ids[id] = true
			switch kind := r.fields["WARC-Type"]; {
			case kind == "warcinfo" && r.offset == 0:
			case kind == "response":
				answer = id
				answers++
				at := place{name, r.offset}
				l, known := wanted[at]
				if !known {
					robots = append(robots, r)
					continue
				}
				delete(wanted, at)
				if err := r.check(l, saw); err != nil {
					t.Errorf("%s at %+v: %v", l.URL, at, err)
				}
				if r.fields["WARC-Truncated"] != "" {
					cut++
				}
			case kind == "request" && answer != "" && r.fields["WARC-Concurrent-To"] == answer:
				answer = ""
			default:
				t.Errorf("%s: unexpected %s record at offset %d", name, kind, r.offset)
			}
		}
		if answer != "" {
			t.Errorf("%s: the last response record has no request record", name)
		}
	}
	for at, l := range wanted {
		t.Errorf("%s: the WARC files have no answer at %+v", l.URL, at)
	}
	checkRobots(t, robots, saw)
	figure(t, "answers", "%d in %d files, %d of them cut, %d of them of robots.txt, all as they were served; %d records", answers, len(files), cut, len(robots), len(lines))
	return files
}

// checkRobots checks the answers that no record points to. Each of these answers must
// be for a robots.txt, or for the target of a redirect from a robots.txt. The answer
// must be exactly as it was served, and must not occur more often than it was served.
func checkRobots(t *testing.T, answers []warcRecord, saw *served) {
	t.Helper()
	asked := make(map[string]bool) // targets of redirects
	for _, r := range answers {
		response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(r.block)), nil)
		if err != nil {
			t.Errorf("%s: %v", r.target(), err)
			continue
		}
		if at, err := url.Parse(r.target()); err == nil && response.Header.Get("Location") != "" {
			if next, err := at.Parse(response.Header.Get("Location")); err == nil {
				asked[next.String()] = true
			}
		}
		if err := r.check(line{URL: r.target(), Status: response.StatusCode}, saw); err != nil {
			t.Errorf("%s: %v", r.target(), err)
		}
	}
	times := make(map[string]int)
	for _, r := range answers {
		target := r.target()
		times[target]++
		if !strings.HasSuffix(target, "/robots.txt") && !asked[target] {
			t.Errorf("the WARC files have an answer of %s, but no record points to it and it is no robots.txt", target)
		}
		if served := saw.times(target); times[target] > served {
			t.Errorf("the WARC files have %d answers of %s, want at most the %d that were served", times[target], target, served)
		}
	}
	if len(answers) == 0 {
		t.Error("the WARC files have no robots.txt")
	}
}

// place is the file and the offset of an answer in the WARC files.
type place struct {
	file   string
	offset int64
}

type warcRecord struct {
	offset int64 // in the compressed file
	fields map[string]string
	block  []byte
}

// readWARC returns the records of a file, which must consist of gzip members with one
// record each.
func readWARC(t *testing.T, file string) (all []warcRecord) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in := bytes.NewReader(text)
	for in.Len() > 0 {
		r := warcRecord{offset: int64(len(text) - in.Len())}
		z, err := gzip.NewReader(in)
		if err == nil {
			z.Multistream(false)
			err = r.read(z)
		}
		if err != nil {
			t.Fatalf("%s: byte %d: %v", file, r.offset, err)
		}
		all = append(all, r)
	}
	return all
}

func (r *warcRecord) target() string { return r.fields["WARC-Target-URI"] }

func (r *warcRecord) read(member io.Reader) error {
	text, err := io.ReadAll(member)
	if err != nil {
		return err
	}
	head, rest, _ := strings.Cut(string(text), "\r\n\r\n")
	version, fields, _ := strings.Cut(head, "\r\n")
	if version != "WARC/1.1" {
		return fmt.Errorf("the record begins with %q, want WARC/1.1", version)
	}
	r.fields = make(map[string]string)
	for field := range strings.SplitSeq(fields, "\r\n") {
		name, value, _ := strings.Cut(field, ": ")
		r.fields[name] = value
	}
	block, ended := strings.CutSuffix(rest, "\r\n\r\n")
	if length, err := strconv.Atoi(r.fields["Content-Length"]); err != nil || length != len(block) || !ended {
		return fmt.Errorf("Content-Length is %q and the block has %d bytes, or the record does not end with an empty line", r.fields["Content-Length"], len(block))
	}
	r.block = []byte(block)
	return nil
}

// check returns nil if the record contains the answer for l exactly as it was served.
// Otherwise it returns an error with the difference.
func (r *warcRecord) check(l line, saw *served) error {
	if r.target() != l.URL {
		return fmt.Errorf("the record is for %s", r.target())
	}
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(r.block)), nil)
	if err != nil {
		return err
	}
	cut := r.fields["WARC-Truncated"] != ""
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil && !(cut && errors.Is(err, io.ErrUnexpectedEOF)):
		return err
	case response.StatusCode != l.Status:
		return fmt.Errorf("the status in the WARC file is %d, the crawl's record has %d", response.StatusCode, l.Status)
	}
	asked, err := url.Parse(l.URL)
	if err != nil {
		return err
	}
	if !saw.has("http://"+asked.Host+asked.RequestURI(), l.Status, body, cut) {
		return fmt.Errorf("the web never served this body of %d bytes with this status", len(body))
	}
	return nil
}

// gowarc validates the files with bench/warccheck, which is a separate module.
func gowarc(t *testing.T, files []string) {
	t.Helper()
	checker := filepath.Join(t.TempDir(), "warccheck")
	build := exec.Command("go", "build", "-o", checker, ".")
	build.Dir = filepath.Join("..", "warccheck")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build bench/warccheck: %v\n%s", err, out)
	}
	out, err := exec.Command(checker, files...).CombinedOutput()
	if err != nil {
		t.Errorf("warccheck: %v\n%s", err, out)
	}
	figure(t, "gowarc", "%s", bytes.TrimSpace(out))
}
