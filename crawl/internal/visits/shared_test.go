package visits_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/crawl/internal/visits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/revisit"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// due is what a worker has read of pages that are due.
type due struct {
	prints []bloomstore.Fingerprint
	rows   []visits.Row
}

// sharedModel is a crawl in Redis whose three workers visit its pages again.
type sharedModel struct {
	*testing.T
	rng     *rand.Rand
	pg      *pgstore.Store
	now     time.Time
	plan    revisit.Plan
	stores  [3]*visits.Store
	records [3][]visits.Visit // of each worker; only the rows of its own follow them
	read    [3]int
	held    [3]due // a worker was suspended before it queued these

	queue  map[int]uint32 // the rounds of the pages that wait; Redis refuses a second one
	before map[int]uint32 // the queue as it was some time ago
	done   map[[2]int]bool
	stale  int
	purged map[int]bool
}

// TestSharedModel runs random steps of three workers that share rows, with a fake clock that also jumps a day forward and back. Workers
// crash at the crash points, and are suspended before they queue what is due. Redis goes back in time. No round of a page has two
// records, and no page is forgotten that is not purged.
func TestSharedModel(t *testing.T) {
	m := &sharedModel{
		T: t, rng: rand.New(rand.NewPCG(bloomtest.Seed(t), 3)), pg: postgres(t), now: begun, plan: revisit.Fixed(day, limits),
		queue: make(map[int]uint32), before: make(map[int]uint32), done: make(map[[2]int]bool), purged: make(map[int]bool),
	}
	steps := 3000
	if testing.Short() {
		steps = 800
	}
	const pages = 30
	for n := range pages {
		m.queue[n] = 0
	}
	for w := range m.stores {
		m.open(w)
	}
	crash.Hook(func(string) {
		if m.rng.IntN(40) == 0 {
			panic(errCrash)
		}
	})
	defer crash.Hook(nil)
	for range steps {
		w := m.rng.IntN(len(m.stores))
		crashed := m.try(func() { m.step(w) })
		if crashed {
			m.open(w) // it has forgotten what it held
			m.held[w] = due{}
		}
	}
	crash.Hook(nil)
	for w := range m.stores {
		for m.read[w] < len(m.records[w]) {
			m.follow(w)
		}
	}
	must(t, m.stores[0].Refresh())
	f, err := m.stores[0].Figures(m.now.Add(800*day), m.plan)
	must(t, err)
	known := int64(0)
	for n := range pages {
		row, found, err := m.stores[0].Row(printOf(n))
		must(t, err)
		if found {
			known++
		}
		if visited := m.done[[2]int{n, 0}]; visited != found && !m.purged[n] {
			t.Errorf("page %d has a row: %v, %+v, but was visited: %v", n, found, row, visited)
		}
	}
	if f.Pages != known || f.Due != known || m.stale == 0 || len(m.done) < pages+10 {
		t.Errorf("figures %+v, want %d pages, all due; %d visits, %d stale", f, known, len(m.done), m.stale)
	}
	if sum, err := m.stores[1].Host("a.test"); err != nil || sum.Pages != known || sum.Queued != f.Queued {
		t.Errorf("the sums of the host are %+v, %v, want those of %+v", sum, err, f)
	}
	t.Logf("%d visits, %d stale, %d purged", len(m.done), m.stale, len(m.purged))
}

func (m *sharedModel) open(w int) {
	s, err := visits.Shared(m.Context(), m.pg, strconv.Itoa(w))
	must(m, err)
	m.stores[w] = s
	at, err := m.pg.VisitCursor(m.Context(), strconv.Itoa(w))
	must(m, err)
	m.read[w], _ = strconv.Atoi(at)
}

// try runs a step and reports whether it crashed.
func (m *sharedModel) try(step func()) (crashed bool) {
	defer func() {
		if fault := recover(); fault != nil {
			if fault != any(errCrash) {
				panic(fault)
			}
			crashed = true
		}
	}()
	step()
	return false
}

func (m *sharedModel) step(w int) {
	s := m.stores[w]
	switch m.rng.IntN(12) {
	case 0, 1, 2, 3, 4:
		for n, round := range m.queue {
			m.visit(w, n, round)
			break
		}
	case 5, 6:
		m.follow(w)
	case 7: // it reads what is due, and is suspended
		prints, rows, _, err := s.Due(m.now, 5)
		must(m, err)
		m.held[w] = due{prints, rows}
	case 8, 9: // it goes on
		m.offer(s, m.held[w])
		m.held[w] = due{}
	case 10:
		jump := time.Duration(m.rng.Int64N(int64(12 * time.Hour)))
		switch m.rng.IntN(8) {
		case 0:
			jump += day
		case 1:
			jump -= day
		}
		m.now = m.now.Add(jump)
	case 11:
		switch m.rng.IntN(6) {
		case 0: // Redis goes back in time, to a moment at which these pages waited
			for n, round := range m.before {
				if _, waits := m.queue[n]; !waits {
					m.queue[n] = round
				}
			}
			m.before = make(map[int]uint32)
		case 1:
			must(m, s.Refresh())
			must(m, s.Begin(strconv.Itoa(m.rng.IntN(3)), "k", m.now))
		case 2:
			if prints, _, _, err := s.Due(m.now, 1); err == nil && len(prints) == 1 && m.rng.IntN(4) == 0 {
				n := int(prints[0][15])
				m.purged[n] = true
				must(m, s.Purge(prints))
			}
		default:
			must(m, s.Refresh())
			_, err := s.Sweep(visits.Everywhere(m.plan), 5)
			must(m, err)
		}
	}
}

// visit leases a page, asks which rounds it has reached, and visits it: its record is written, its round is stored, and then it leaves
// the queue.
func (m *sharedModel) visit(w, n int, round uint32) {
	known, err := m.stores[w].Rows([]bloomstore.Fingerprint{printOf(n)})
	must(m, err)
	if row, has := known[printOf(n)]; has && round <= row.Reached {
		m.stale++
		delete(m.queue, n)
		return
	}
	if m.done[[2]int{n, int(round)}] {
		if round == 0 { // its record is not read yet; an export keeps one of the two
			delete(m.queue, n)
			return
		}
		m.Fatalf("page %d has two records of round %d", n, round)
	}
	answer := []revisit.Answer{revisit.Content, revisit.Content, revisit.NotModified, revisit.NotFound}[m.rng.IntN(4)]
	v := visitOf(n, round, m.now, answer, byte(m.rng.IntN(2)))
	must(m, m.pg.Finish(m.Context(), []exact.Finished{{Ref: exact.Ref{Fingerprint: v.Fingerprint, Round: round}, Outcome: frontier.OK}}, nil))
	m.records[w] = append(m.records[w], v)
	m.done[[2]int{n, int(round)}] = true
	m.before[n] = round
	crash.Point("finished") // the page waits, but its round is stored
	delete(m.queue, n)
}

func (m *sharedModel) follow(w int) {
	n := min(m.read[w]+1+m.rng.IntN(5), len(m.records[w]))
	if n == m.read[w] {
		return
	}
	must(m, m.stores[w].AddFrom(m.records[w][m.read[w]:n], visits.Cursor{Source: strconv.Itoa(w), At: strconv.Itoa(n)}, visits.Everywhere(m.plan)))
	m.read[w] = n
}

// offer queues pages, perhaps long after they were read.
func (m *sharedModel) offer(s *visits.Store, d due) {
	for i := range d.rows {
		n := int(d.prints[i][15])
		if _, waits := m.queue[n]; !waits {
			m.queue[n] = max(d.rows[i].Item.Round, d.rows[i].Reached) + 1
		}
	}
	crash.Point("offered")
	must(m, s.Queued(d.prints, d.rows, m.now))
}

// TestForgotten: a page that is forgotten keeps its round, in Postgres, so that an item of it that is still queued is stale. A later visit makes
// a row again.
func TestForgotten(t *testing.T) {
	pg, plan := postgres(t), revisit.Fixed(day, limits)
	s, err := visits.Shared(t.Context(), pg, "w")
	must(t, err)
	all := []bloomstore.Fingerprint{printOf(1), printOf(2)}
	must(t, s.AddFrom([]visits.Visit{visitOf(1, 3, begun, revisit.Content, 'a'), visitOf(2, 0, begun, revisit.Content, 'a')}, visits.Cursor{Source: "a", At: "7"}, visits.Everywhere(plan)))
	must(t, s.Purge(all))
	rows, err := s.Rows(all)
	if err != nil || rows[all[0]].Reached != 3 || !rows[all[0]].Visited.IsZero() || len(rows) != 2 {
		t.Errorf("the rows of forgotten pages are %+v, %v", rows, err)
	}
	if _, found, err := s.Row(all[0]); found || err != nil {
		t.Errorf("a forgotten page has a row: %v", err)
	}
	if due, _, _, err := s.Due(begun.Add(400*day), 9); len(due) > 0 || err != nil {
		t.Errorf("forgotten pages are due: %v, %v", due, err)
	}
	must(t, s.AddFrom([]visits.Visit{visitOf(1, 4, begun.Add(day), revisit.Content, 'a')}, visits.Cursor{Source: "a", At: "8"}, visits.Everywhere(plan)))
	if row, found, err := s.Row(all[0]); !found || err != nil || row.Reached != 4 {
		t.Errorf("after another visit the row is %+v, %v, %v", row, found, err)
	}
	if at, err := pg.VisitCursor(t.Context(), "a"); at != "8" || err != nil {
		t.Errorf("the cursor is %q, %v", at, err)
	}
	if at, err := pg.VisitCursor(t.Context(), "b"); at != "" || err != nil {
		t.Errorf("the cursor of another worker is %q, %v", at, err)
	}
}

// TestLeader: one of two workers leads, and the other one does if the first is silent for visits.LeadTime.
func TestLeader(t *testing.T) {
	pg := postgres(t)
	leads := func(worker string, want bool) {
		t.Helper()
		if is, err := pg.LeadVisits(t.Context(), worker, 300*time.Millisecond); err != nil || is != want {
			t.Errorf("%s leads: %v, %v, want %v", worker, is, err, want)
		}
	}
	leads("a", true)
	leads("b", false)
	leads("a", true)
	time.Sleep(400 * time.Millisecond)
	leads("b", true)
	leads("a", false)
}
