package proofs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// team is workers that share a crawl, each a process of the binary.
type team struct {
	t          *testing.T
	bin        string
	name       []string // the crawl's, as flags
	flags      []string // of crawler crawl, beside those
	workersDir string   // has the workers' directories

	rng     *rand.Rand
	working []*worker
	ended   chan *worker
	started int
	over    bool           // a worker found that nothing is left
	deaths  map[string]int // workers that died, by what killed them
	points  []kill         // where workers that come next kill themselves
	gaveUp  int            // workers that said that they cannot go on
	reused  int            // directories that a second worker went on with

	killEvery time.Duration // this process kills a worker so often; 0: never
	mostKills int           // and no more than so many
	trouble   func() error  // what happens to the servers meanwhile; nil: nothing

	joined   func(*worker)     // is told of each worker; optional
	whenOver func()            // is called when a worker found that nothing is left; nil: nothing is
	mayFail  func(string) bool // whether a worker may give up and say so; nil: none may
	tryAgain int               // how often a worker that gave up is replaced
}

// worker is one of a team.
type worker struct {
	*process
	dir  string
	kill kill // what ends it; zero: nothing, or this process
}

// crawlName is the name of crawls that are shared.
const crawlName = "proof"

// newTeam returns a team that will crawl on the Redis at url.
func newTeam(t *testing.T, url string, rng *rand.Rand, flags ...string) *team {
	t.Helper()
	return &team{
		t: t, bin: crawlerBinary(t), name: []string{"--redis", url, "--name", crawlName}, flags: flags,
		workersDir: filepath.Join(t.TempDir(), "proof.crawl"), rng: rng, deaths: make(map[string]int),
	}
}

// leaseTime is how long a dead worker's hosts wait for another.
func leaseTime() time.Duration { return sized(3*time.Second, 10*time.Second) }

// sharedFlags are those of a crawl of a hard web that is shared, with its seeds.
func sharedFlags(web *site, more ...string) []string {
	return slices.Concat(hardFlags(web), []string{"--lease-time", ms(leaseTime()), "--rotate", sized("16KiB", "64KiB")}, more, web.Seeds())
}

// join starts a worker in dir; without one it gets a new one.
func (m *team) join(dir string) {
	m.t.Helper()
	if m.started++; dir == "" {
		dir = filepath.Join(m.workersDir, fmt.Sprintf("worker-%d", m.started))
	} else {
		m.reused++
	}
	w := &worker{dir: dir}
	if len(m.points) > 0 {
		w.kill, m.points = m.points[0], m.points[1:]
	}
	named := []string{"--dir", dir, "--worker", fmt.Sprintf("worker-%d", m.started)}
	w.process = command(m.t, m.bin, slices.Concat([]string{"crawl"}, m.name, named, w.kill.flags(), m.flags)...)
	m.working = append(m.working, w)
	if m.joined != nil {
		m.joined(w)
	}
	waited := make(chan struct{})
	go func() {
		_ = w.cmd.Wait() // how it ended is in its state
		close(waited)
		m.ended <- w
	}()
	m.t.Cleanup(func() { // before that of command, which would wait at the same time
		_ = w.cmd.Process.Kill()
		<-waited
	})
}

// run has n workers crawl to the end of the crawl. A worker that dies is replaced, by
// turns in a directory of its own and in that of the dead.
func (m *team) run(n int) {
	m.t.Helper()
	const most = 10_000 // workers in one run
	m.ended = make(chan *worker, most)
	var kills <-chan time.Time
	if m.killEvery > 0 {
		tick := time.NewTicker(m.killEvery)
		defer tick.Stop()
		kills = tick.C
	}
	for range n {
		m.join("")
	}
	troubled := make(chan error, 1)
	if m.trouble != nil {
		go func() { troubled <- m.trouble() }()
	} else {
		troubled <- nil
	}
	var late <-chan time.Time
	for calm := false; len(m.working) > 0 || !calm; {
		if len(m.working) == 0 && late == nil {
			late = time.After(2 * time.Minute)
		}
		select {
		case <-late:
			m.t.Fatal("all workers ended two minutes ago, and what was to trouble them waits for something still")
		case err := <-troubled:
			if calm = true; err != nil {
				m.t.Fatal(err)
			}
		case w := <-m.ended:
			m.bury(w)
		case <-kills:
			m.killOne()
		}
	}
}

// bury takes note of a worker that ended.
func (m *team) bury(w *worker) {
	m.t.Helper()
	m.working = slices.DeleteFunc(m.working, func(other *worker) bool { return other == w })
	state := w.cmd.ProcessState
	status, _ := state.Sys().(syscall.WaitStatus)
	switch killed := status.Signaled() && status.Signal() == syscall.SIGKILL; {
	case w.hung():
		m.t.Fatalf("a worker hangs; stderr:\n%s", &w.stderr)
	case killed:
		m.deaths[cmp.Or(w.kill.point, "any moment")]++
		if m.over {
			return
		}
		dir := ""
		if m.rng.IntN(2) == 0 {
			dir = w.dir
		}
		m.join(dir)
	case state.ExitCode() != 0 && m.mayFail != nil && m.mayFail(w.stderr.String()):
		if m.gaveUp++; m.gaveUp <= m.tryAgain {
			m.join("")
		}
	case state.ExitCode() != 0:
		m.t.Fatalf("a worker ended with exit code %d, want 0; stderr:\n%s", state.ExitCode(), &w.stderr)
	default:
		if m.over = true; m.whenOver != nil {
			m.whenOver()
		}
	}
}

// killOne kills a worker that does not do so itself.
func (m *team) killOne() {
	mortal := slices.DeleteFunc(slices.Clone(m.working), func(w *worker) bool { return w.kill.point != "" })
	if len(mortal) > 0 && !m.over && m.mostKills > 0 {
		m.mostKills--
		_ = mortal[m.rng.IntN(len(mortal))].cmd.Process.Kill()
	}
}

// dead returns how many workers died.
func (m *team) dead() (n int) {
	for _, times := range m.deaths {
		n += times
	}
	return n
}

// ask runs a command about the crawl and returns how it ended.
func (m *team) ask(args ...string) end {
	m.t.Helper()
	return command(m.t, m.bin, slices.Concat(args[:1], m.name, args[1:])...).wait()
}

// export returns the records of all workers.
func (m *team) export() []byte {
	m.t.Helper()
	e := m.ask("export", m.workersDir)
	if e.code != 0 {
		m.t.Fatalf("crawler export: exit code %d\n%s", e.code, e.stderr)
	}
	figure(m.t, "export", "%s", strings.TrimSpace(e.stderr))
	return []byte(e.stdout)
}

// stats asks for the books of the crawl.
func (m *team) stats() frontier.Stats {
	m.t.Helper()
	e := m.ask("status", "--json")
	var status struct{ Stats frontier.Stats }
	if err := json.Unmarshal([]byte(e.stdout), &status); e.code != 0 || err != nil {
		m.t.Fatalf("crawler status: exit code %d, %v\n%s%s", e.code, err, e.stdout, e.stderr)
	}
	return status.Stats
}

// lostTerm is the audit's term for what a worker was told and the crawl forgot.
const lostTerm = "acknowledged and lost"

// audited is what the proofs read of an audit.
type audited struct {
	code   int
	text   string
	lost   uint64
	faults []string // terms that do not balance
	noted  bool     // something was not counted
}

// audit counts the crawl anew, with its records: these are counted once no
// worker, not even one that was killed, counts as at work.
func (m *team) audit() (a audited) {
	m.t.Helper()
	for until := time.Now().Add(patience()); ; {
		a = m.auditOnce()
		if !a.noted || time.Now().After(until) {
			return a
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (m *team) auditOnce() audited {
	m.t.Helper()
	e := m.ask("status", "--audit", "--json", "--dir", m.workersDir)
	var said struct {
		Terms []struct {
			Term, Fault string
			Counted     float64
		}
		Faults, Notes []string
	}
	if err := json.Unmarshal([]byte(e.stdout), &said); err != nil {
		m.t.Fatalf("crawler status --audit: exit code %d, %v\n%s%s", e.code, err, e.stdout, e.stderr)
	}
	a := audited{code: e.code, text: e.stdout, faults: said.Faults, noted: len(said.Notes) > 0}
	for _, term := range said.Terms {
		if term.Term == lostTerm {
			a.lost = uint64(term.Counted)
		}
		if term.Fault != "" {
			a.faults = append(a.faults, term.Term)
		}
	}
	return a
}

// judge holds what a crawl left to the web: its records are exactly the expected
// ones, its books and its manners are in order.
func (m *team) judge(web *site) audited {
	m.t.Helper()
	written := m.export()
	report, err := web.Compare(bytes.NewReader(written))
	if err != nil {
		m.t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		m.t.Error(err)
	}
	figure(m.t, "records", "%d, expected %d: %d missing, %d unexpected, %d twice",
		report.Records, report.Expected, report.Missing, report.Unexpected, report.Duplicates)
	figure(m.t, "outcomes", "%s", counts(report.Outcomes))
	lines := parse(m.t, written)
	checkOutcomes(m.t, m.stats(), lines)
	once, again, unheard := fetchedOnce(web, lines)
	figure(m.t, "refetched", "%d requests", again)
	judgeManners(m.t, web, once, unheard)
	audit := m.audit()
	figure(m.t, "audit", "exit code %d, %s: %d", audit.code, lostTerm, audit.lost)
	return audit
}

// fetchedOnce returns the records of URLs that were asked for no more often than
// the records say; how many requests there were beyond what they say, whose
// outcome a death took; and how many answers with Retry-After were among those
// to URLs that were.
func fetchedOnce(web *site, lines []line) (once []line, again, unheard int) {
	requests, retryAfters := make(map[string]int), make(map[string]int)
	for _, r := range web.pages() {
		requests[r.url]++
		if r.RetryAfter > 0 {
			retryAfters[r.url]++
		}
	}
	for _, l := range lines {
		if extra := requests[l.URL] - l.Attempts; extra > 0 {
			again += extra
			unheard += retryAfters[l.URL]
		} else {
			once = append(once, l)
		}
	}
	return once, again, unheard
}
