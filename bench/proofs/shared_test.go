package proofs

import (
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

// A team is a group of workers that share a crawl. Each worker is a process of the
// binary.
type team struct {
	t          *testing.T
	bin        string
	name       []string // flags that name the crawl
	flags      []string // further flags of `crawler crawl`
	workersDir string   // contains the workers' directories

	rng     *rand.Rand
	working []*worker      // workers that have not ended
	ended   chan *worker   // receives each worker that ends
	started int            // number of workers that were started so far
	over    bool           // whether a worker has ended because no URL was left
	deaths  map[string]int // number of killed workers, by crash point
	points  []kill         // steps (crash points) at which the next workers kill themselves
	gaveUp  int            // number of workers whose failure mayFail accepted
	reused  int            // number of workers that took over the directory of a killed one

	killEvery time.Duration // interval at which this process kills a worker; 0 means never
	mostKills int           // maximum number of kills at killEvery
	trouble   func() error  // runs while the workers run, to make servers fail; optional

	joined   func(*worker)     // called for each new worker; optional
	whenOver func()            // called when a worker ends because no URL is left; optional
	mayFail  func(string) bool // reports whether a worker with this stderr is allowed to fail; nil means that none is
	tryAgain int               // maximum number of failed workers that are replaced
}

// A worker is one worker of a team.
type worker struct {
	*process
	dir  string
	kill kill // where it kills itself; the zero value means nowhere
}

const crawlName = "proof"

// newTeam returns a team without workers. Its crawl is on the Redis server at url.
func newTeam(t *testing.T, url string, rng *rand.Rand, flags ...string) *team {
	t.Helper()
	return &team{
		t: t, bin: crawlerBinary(t), name: []string{"--redis", url, "--name", crawlName}, flags: flags,
		workersDir: filepath.Join(t.TempDir(), "proof.crawl"), rng: rng, deaths: make(map[string]int),
	}
}

// leaseTime returns the lease time. When it is over, other workers get the hosts of a
// dead worker.
func leaseTime() time.Duration { return sized(3*time.Second, 10*time.Second) }

// sharedFlags returns the flags and seeds of a shared crawl of web.
func sharedFlags(web *site, more ...string) []string {
	return slices.Concat(hardFlags(web), []string{"--lease-time", ms(leaseTime()), "--rotate", sized("16KiB", "64KiB")}, more, web.Seeds())
}

// join starts a worker in dir, or in a new directory if dir is empty.
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
		_ = w.cmd.Wait() // ProcessState says how it ended
		close(waited)
		m.ended <- w
	}()
	m.t.Cleanup(func() { // runs before the cleanup of command, which would call Wait concurrently
		_ = w.cmd.Process.Kill()
		<-waited
	})
}

// run runs n workers until the crawl has finished. A killed worker is replaced. At
// random, the new worker takes over the directory of the killed one or gets a new
// directory.
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
			m.t.Fatal("all workers ended two minutes ago, but the function that disturbs them has not returned")
		case err := <-troubled:
			if calm = true; err != nil {
				m.t.Fatal(err)
			}
		case w := <-m.ended:
			m.reap(w)
		case <-kills:
			m.killOne()
		}
	}
}

func (m *team) reap(w *worker) {
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

// killOne kills a random worker of those that do not kill themselves.
func (m *team) killOne() {
	others := slices.DeleteFunc(slices.Clone(m.working), func(w *worker) bool { return w.kill.point != "" })
	if len(others) > 0 && !m.over && m.mostKills > 0 {
		m.mostKills--
		_ = others[m.rng.IntN(len(others))].cmd.Process.Kill()
	}
}

func (m *team) dead() (n int) {
	for _, times := range m.deaths {
		n += times
	}
	return n
}

// ask runs a crawler command for the crawl and returns how it ended.
func (m *team) ask(args ...string) end {
	m.t.Helper()
	return command(m.t, m.bin, slices.Concat(args[:1], m.name, args[1:])...).wait()
}

// export returns the merged records of all workers.
func (m *team) export() []byte {
	m.t.Helper()
	e := m.ask("export", m.workersDir)
	if e.code != 0 {
		m.t.Fatalf("crawler export: exit code %d\n%s", e.code, e.stderr)
	}
	figure(m.t, "export", "%s", strings.TrimSpace(e.stderr))
	return []byte(e.stdout)
}

// stats returns the counters of the crawl (the books), as `crawler status` prints them.
func (m *team) stats() frontier.Stats {
	m.t.Helper()
	e := m.ask("status", "--json")
	var status struct{ Stats frontier.Stats }
	if err := json.Unmarshal([]byte(e.stdout), &status); e.code != 0 || err != nil {
		m.t.Fatalf("crawler status: exit code %d, %v\n%s%s", e.code, err, e.stdout, e.stderr)
	}
	return status.Stats
}

// lostTerm is the audit's term for URLs that the crawl has lost, although a worker got
// the answer that they were added.
const lostTerm = "acknowledged and lost"

// audited has the parts of an audit that the proofs use.
type audited struct {
	code       int
	text       string
	lost       uint64
	foundAgain uint64
	faults     []string // terms that do not balance
	noted      bool     // the audit has notes, because something was not counted
}

// audit runs an audit of the crawl with its records. An audit counts the records only if
// no worker is registered as running. So the audit is repeated until the registrations of
// killed workers have expired.
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
		if term.Term == "lost, then found again" {
			a.foundAgain = uint64(term.Counted)
		}
		if term.Fault != "" {
			a.faults = append(a.faults, term.Term)
		}
	}
	return a
}

// judge checks a finished crawl. Its records must be exactly the expected ones, its
// books must balance, and it must have been polite. judge returns an audit of the
// crawl.
func (m *team) judge(web *site) audited {
	m.t.Helper()
	written := m.export()
	report := compareExactly(m.t, web.Web, written)
	figure(m.t, "outcomes", "%s", formatCounts(report.Outcomes))
	lines := parse(m.t, written)
	checkOutcomes(m.t, m.stats(), lines)
	once, again, unheard := fetchedOnce(web, lines)
	figure(m.t, "refetched", "%d requests", again)
	judgeManners(m.t, web, once, unheard)
	audit := m.audit()
	figure(m.t, "audit", "exit code %d, %s: %d", audit.code, lostTerm, audit.lost)
	return audit
}

// fetchedOnce compares the number of requests for each URL with the attempts in its
// record. If a worker is killed before it stores the outcome of a request, this request is
// lost: the attempts in the record do not include it. The result lost is the number of lost
// requests. The result complete has the records of the URLs without lost requests. The result
// unheard is the number of lost requests for URLs with a Retry-After: the answer that asks for the wait can be lost, and
// after it other answers, so each of these requests can be followed by one that is too early.
func fetchedOnce(web *site, lines []line) (complete []line, lost, unheard int) {
	requests, waits := make(map[string]int), make(map[string]bool)
	for _, r := range web.pages() {
		requests[r.url]++
		waits[r.url] = waits[r.url] || r.RetryAfter > 0
	}
	for _, l := range lines {
		if extra := requests[l.URL] - l.Attempts; extra > 0 {
			lost += extra
			if waits[l.URL] {
				unheard += extra
			}
		} else {
			complete = append(complete, l)
		}
	}
	return complete, lost, unheard
}
