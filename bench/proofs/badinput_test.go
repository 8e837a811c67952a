package proofs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testweb"
)

// A misfortune is a mistake of a user or a fault of a machine that makes a crawl fail.
type misfortune struct {
	name string
	// provoke makes a run of the crawl fail, and returns how the run ended. After the
	// run, it repairs the directory if the crawler cannot do that itself.
	provoke func(t *testing.T, c *crawl, web *site) end
	code    int      // the exit code
	says    []string // regular expressions: each must match a line, and each line must match one
}

// TestBadInput checks that the crawler reports each misfortune with one clear message and
// the documented exit code. Nothing must be lost: the crawl can be resumed, and its
// records are exactly the expected ones.
func TestBadInput(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	var names []string
	for _, m := range []misfortune{
		missingSeeds, binarySeeds, directoryAsSeeds, outOfRange, unknownKeys, otherSettings,
		corruptCheckpoint, lostCheckpoint, foreignCheckpoint, otherVersion, foreignDirectory, lostRecords,
		recordsUnwritable, directoryUnwritable, outputFull, fileTooLarge, diskFull, secondProcess, directoryRemoved,
	} {
		names = append(names, m.name)
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			web := serveSite(t, testweb.Config{Seed: seed, Hosts: 10, Pages: 300, MeanBytes: 2 << 10, MaxBodyBytes: maxBody, Hardships: testweb.Spellings}, nil)
			flags := append(web.flags(), "--delay", "10ms", "--urls", "10000", "--log-level", "warn")
			c := newCrawl(t, append(flags, web.Seeds()...)...)
			m.check(t, m.provoke(t, c, web))
			c.finish()
			checkExact(t, c, web)
		})
	}
	figure(t, "misfortunes", "%d, each with one clear message and its exit code, and exactly the expected records afterwards: %s",
		len(names), strings.Join(names, ", "))
}

// unrelated matches the lines of stderr that are not about the fault.
var unrelated = regexp.MustCompile(`^(crawling into|resuming|joining|Try 'crawler) `)

// check compares the exit code and the message of a failed run with the expected ones.
func (m misfortune) check(t *testing.T, e end) {
	t.Helper()
	if e.code != m.code {
		t.Errorf("exit code %d, want %d", e.code, m.code)
	}
	var lines []string
	for l := range strings.Lines(e.stderr) {
		l = strings.TrimSuffix(l, "\n")
		if said, is := strings.CutPrefix(l, "crawler: "); is {
			lines = append(lines, said)
		} else if !unrelated.MatchString(l) {
			t.Errorf("stderr has the line %q, want only messages that begin with crawler:", l)
		}
	}
	isSaid := make([]bool, len(m.says))
	for _, l := range lines {
		isExpected := false
		for i, want := range m.says {
			if regexp.MustCompile(want).MatchString(l) {
				isSaid[i], isExpected = true, true
			}
		}
		if !isExpected {
			t.Errorf("stderr says %q, which is none of the expected messages", l)
		}
	}
	for i, want := range m.says {
		if !isSaid[i] {
			t.Errorf("no line of stderr matches %q", want)
		}
	}
	if t.Failed() {
		t.Logf("stderr:\n%s", e.stderr)
	}
}

// checkExact checks that the records of a finished crawl are exactly the expected ones,
// and that its counters (the books) balance.
func checkExact(t *testing.T, c *crawl, web *site) {
	t.Helper()
	written := records(t, c.dir)
	compareRecords(t, web.Web, written)
	const runs = 4 // the maximum number of runs of one crawl
	checkBooks(t, c.stats(), parse(t, written), len(web.Seeds()), runs)
}

func (c *crawl) begin() { c.finish("--max-pages", "60") }

func (c *crawl) path(name string) string { return filepath.Join(c.dir, name) }

// swapped changes one of the crawl's files, runs the crawl, and restores the file.
func (c *crawl) swapped(name string, change func(content []byte) []byte) end {
	c.t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		c.t.Fatal(err)
	}
	put := func(content []byte) {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	put(change(bytes.Clone(content)))
	defer put(content)
	return c.start().wait()
}

// file makes a file in a new folder, and returns the path of the file.
func file(t *testing.T, name, content string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// Misfortunes on the command line.
var (
	missingSeeds = misfortune{
		name: "missing seed file", code: 2, says: []string{`--seeds is ".*absent\.txt", want .*: no such file`},
		provoke: func(t *testing.T, c *crawl, _ *site) end {
			return c.start("--seeds", filepath.Join(t.TempDir(), "absent.txt")).wait()
		},
	}
	binarySeeds = misfortune{
		name: "binary seed file", code: 2, says: []string{`seeds: .*photo\.jpg is a binary file`},
		provoke: func(t *testing.T, c *crawl, _ *site) end {
			return c.start("--seeds", file(t, "photo.jpg", "\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01")).wait()
		},
	}
	directoryAsSeeds = misfortune{
		name: "directory as seed file", code: 2, says: []string{`--seeds is ".*", want .*: it is a directory`},
		provoke: func(t *testing.T, c *crawl, _ *site) end { return c.start("--seeds", t.TempDir()).wait() },
	}
	outOfRange = misfortune{
		name: "values out of range", code: 2,
		says: []string{
			`--concurrency is "0", want`, `--timeout is "-1s", want`, `--retries is "1000", want`, `--max-depth is "-5", want`,
			`--robots is "perhaps", want`, `--include is "\(", want .*missing closing`, `--connect-to is "nowhere", want`,
		},
		provoke: func(_ *testing.T, c *crawl, _ *site) end {
			return c.start("--concurrency", "0", "--timeout", "-1s", "--retries", "1000", "--max-depth", "-5",
				"--robots", "perhaps", "--include", "(", "--connect-to", "nowhere").wait()
		},
	}
	unknownKeys = misfortune{
		name: "unknown keys in the config file", code: 2,
		says: []string{`crawl\.yaml:2: unknown key "speed"`, `crawl\.yaml:4: unknown key "warp"`},
		provoke: func(t *testing.T, c *crawl, _ *site) end {
			return c.start("--config", file(t, "crawl.yaml", "timeout: 10s\nspeed: 3\nretries: 2\nwarp: 9\n")).wait()
		},
	}
	otherSettings = misfortune{
		name: "settings other than the stored ones", code: 2,
		says: []string{
			`has other settings`, `--delay is 10ms there, 3s here`, `--max-depth is -1 there, 7 here`,
			`leave them out`, `set --dir .* max-depth=7 delay=3s`,
		},
		provoke: func(_ *testing.T, c *crawl, _ *site) end {
			c.begin()
			return c.start("--delay", "3s", "--max-depth", "7").wait()
		},
	}
)

// Misfortunes in the directory.
var (
	corruptCheckpoint = misfortune{
		name: "corrupt checkpoint", code: 1, says: []string{`filter-\d+\.bits.*damaged`, `crawler rebuild`},
		provoke: func(t *testing.T, c *crawl, _ *site) end {
			c.begin()
			name := checkpoint(t, c.dir)
			flipped := func(bits []byte) []byte { bits[len(bits)/2] ^= 1; return bits }
			e := c.swapped(name, flipped)
			if err := os.Truncate(name, 100); err != nil { // crawler rebuild makes the file again
				t.Fatal(err)
			}
			if rebuilt := command(t, c.bin, "rebuild", "--dir", c.dir).wait(); rebuilt.code != 0 {
				t.Errorf("crawler rebuild: exit code %d, %s", rebuilt.code, rebuilt.stderr)
			}
			return e
		},
	}
	lostCheckpoint = misfortune{
		name: "lost checkpoint", code: 1, says: []string{`filter-\d+\.bits: no such file`, `crawler rebuild`},
		provoke: func(t *testing.T, c *crawl, _ *site) end {
			c.begin()
			if err := os.Remove(checkpoint(t, c.dir)); err != nil {
				t.Fatal(err)
			}
			e := c.start().wait()
			if rebuilt := command(t, c.bin, "rebuild", "--dir", c.dir).wait(); rebuilt.code != 0 {
				t.Errorf("crawler rebuild: exit code %d, %s", rebuilt.code, rebuilt.stderr)
			}
			return e
		},
	}
	foreignCheckpoint = misfortune{
		name: "foreign checkpoint", code: 1, says: []string{`filter-\d+\.bits.*other parameters: .*tag is`},
		provoke: func(t *testing.T, c *crawl, _ *site) end {
			c.begin()
			other := &crawl{t: t, bin: c.bin, dir: filepath.Join(t.TempDir(), "other.crawl"), args: c.args}
			other.begin()
			foreign, err := os.ReadFile(checkpoint(t, other.dir))
			if err != nil {
				t.Fatal(err)
			}
			return c.swapped(checkpoint(t, c.dir), func([]byte) []byte { return foreign })
		},
	}
	otherVersion = misfortune{
		name: "directory of another version", code: 1, says: []string{`crawl\.json has format 7, this program reads format 3`},
		provoke: func(_ *testing.T, c *crawl, _ *site) end {
			c.begin()
			return c.swapped(c.path("crawl.json"), func(card []byte) []byte {
				return bytes.Replace(card, []byte(`"format": 3`), []byte(`"format": 7`), 1)
			})
		},
	}
	foreignDirectory = misfortune{
		name: "directory of something else", code: 1, says: []string{`not empty .*thesis\.tex.* holds no crawl`},
		provoke: func(t *testing.T, c *crawl, _ *site) end {
			full := *c
			full.dir = filepath.Dir(file(t, "thesis.tex", "years of work"))
			e := full.start().wait()
			if left, err := os.ReadDir(full.dir); err != nil || len(left) != 1 {
				t.Errorf("the directory has %d files (%v), want only the one that was there before", len(left), err)
			}
			return e
		},
	}
	lostRecords = misfortune{
		name: "records cut off", code: 1, says: []string{`pages\.jsonl has \d+ bytes, but \d+ were committed`, `rebuild --accept-loss`},
		provoke: func(_ *testing.T, c *crawl, _ *site) end {
			c.begin()
			return c.swapped(c.path("pages.jsonl"), func(all []byte) []byte { return all[:len(all)-1] })
		},
	}
)

// checkpoint returns the path of the file with the bits of a crawl's filter.
func checkpoint(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "filter-*.bits"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the directory has the checkpoints %v (%v), want one", found, err)
	}
	return found[0]
}

const safe = `what was committed is safe`

// Misfortunes of the machine.
var (
	recordsUnwritable = misfortune{
		name: "record file that cannot be opened", code: 1, says: []string{`pages\.jsonl: is a directory`},
		provoke: func(t *testing.T, c *crawl, _ *site) end {
			c.begin()
			kept := c.path("pages.jsonl")
			aside := filepath.Join(t.TempDir(), "aside")
			noErr(t, os.Rename(kept, aside), os.Mkdir(kept, 0o755))
			e := c.start().wait()
			noErr(t, os.Remove(kept), os.Rename(aside, kept))
			return e
		},
	}
	directoryUnwritable = misfortune{
		name: "directory that cannot be made", code: 1, says: []string{`not a directory`},
		provoke: func(t *testing.T, c *crawl, _ *site) end {
			below := *c
			below.dir = filepath.Join(file(t, "file", ""), "proof.crawl")
			return below.start().wait()
		},
	}
	outputFull = misfortune{
		name: "stdout without space", code: 1, says: []string{`/dev/stdout: no space left`, safe},
		provoke: func(t *testing.T, c *crawl, _ *site) end {
			if _, err := os.Stat("/dev/full"); err != nil {
				if os.Getenv("CRAWLER_TEST_SERVERS") == "require" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			return c.shell(`exec "$@" --out - >/dev/full`)
		},
	}
	fileTooLarge = misfortune{
		name: "limit of file sizes", code: 1, says: []string{`file too large`, safe},
		provoke: func(_ *testing.T, c *crawl, _ *site) end { return c.shell(`ulimit -f 100; exec "$@"`) },
	}
	diskFull = misfortune{
		name: "full disk", code: 1, says: []string{`no space left on device`, safe},
		provoke: func(t *testing.T, c *crawl, _ *site) end {
			c.dir = filepath.Join(smallDisk(t), "proof.crawl")
			e := c.start().wait()
			if out, err := exec.Command("mount", "-o", "remount,size=32m", filepath.Dir(c.dir)).CombinedOutput(); err != nil {
				t.Fatalf("remount: %v\n%s", err, out)
			}
			return e
		},
	}
	secondProcess = misfortune{
		name: "second process", code: 1, says: []string{`is in use by another crawler`},
		provoke: func(_ *testing.T, c *crawl, web *site) end {
			c.args = append(c.args, "--delay", "100ms")
			first := c.underWay(web)
			e := c.start().wait()
			if e := first.wait(); e.code != 0 {
				c.t.Errorf("the first process: exit code %d, %s", e.code, e.stderr)
			}
			return e
		},
	}
	directoryRemoved = misfortune{
		name: "directory removed during a crawl", code: 1, says: []string{`removed while it was in use`},
		provoke: func(t *testing.T, c *crawl, web *site) end {
			c.args = append(c.args, "--delay", "150ms")
			p := c.underWay(web)
			noErr(t, os.RemoveAll(c.dir))
			return p.wait() // the next run starts a new crawl
		},
	}
)

// noErr ends the test if one of errs is not nil.
func noErr(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// shell runs a shell command line. In this line, "$@" is the command that runs the
// crawl.
func (c *crawl) shell(line string) end {
	c.t.Helper()
	args := append([]string{"-c", line, "sh", c.bin, "crawl", "--dir", c.dir}, c.args...)
	return command(c.t, "/bin/sh", args...).wait()
}

// underWay starts the crawl and waits until it has requested some pages.
func (c *crawl) underWay(web *site) *process {
	c.t.Helper()
	asked := make(chan struct{})
	web.ringAfter(30, func() { close(asked) })
	p := c.start()
	select {
	case <-asked:
	case <-time.After(patience()):
		c.t.Fatalf("the crawl made fewer than 30 requests in %v", patience())
	}
	return p
}

// smallDisk mounts a file system that is too small for a crawl, and returns its path. If
// mounting is not allowed, as in most containers, it skips the test.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256k", "none", dir).CombinedOutput(); err != nil {
		why := fmt.Sprintf("no file system can be mounted here: %v %s", err, bytes.TrimSpace(out))
		if os.Getenv("CRAWLER_TEST_SERVERS") == "require" && os.Geteuid() == 0 && !bytes.Contains(out, []byte("permission denied")) {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v\n%s", err, out)
		}
	})
	return dir
}
