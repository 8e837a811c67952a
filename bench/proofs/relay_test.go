package proofs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// receiver is an unreliable webhook. It is sometimes unavailable, and refuses some events
// permanently. It also breaks connections, even after it accepted an event.
type receiver struct {
	server *httptest.Server

	mu      sync.Mutex
	rng     *rand.Rand
	away    time.Time           // time until which the receiver is unavailable
	settled map[string]int      // how often it accepted or refused an event, by id
	order   map[string][]string // ids by host, in the order of the first acceptance or refusal
	refused map[string]bool     // ids of the events that it refuses permanently
	faults  map[string]int      // number of other answers, by name
	source  map[string]bool     // sources of the events
}

// event has the fields of an event that the proofs use.
type event struct {
	ID, Source, Type, Subject string
	Host                      string `json:"partitionkey"`
	inDoubt                   bool   // the event may be delivered after later events of its journal; see journalOf
}

func newReceiver(t *testing.T, seed uint64) *receiver {
	t.Helper()
	r := &receiver{rng: rand.New(rand.NewPCG(seed, 30)), settled: make(map[string]int), order: make(map[string][]string),
		refused: make(map[string]bool), faults: make(map[string]int), source: make(map[string]bool)}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	var e event
	if err != nil || json.Unmarshal(body, &e) != nil {
		return // the relay died while it sent the request
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fault := func(name string, status int) {
		r.faults[name]++
		w.WriteHeader(status)
	}
	switch draw := r.rng.IntN(1000); {
	case time.Now().Before(r.away):
		fault("away", http.StatusServiceUnavailable)
		return
	case draw < 2:
		r.away = time.Now().Add(300 * time.Millisecond)
		fault("away", http.StatusServiceUnavailable)
		return
	case draw < 10:
		w.Header().Set("Retry-After", "0")
		fault("too many", http.StatusTooManyRequests)
		return
	case draw < 20:
		r.faults["reset"]++
		panic(http.ErrAbortHandler)
	}
	if r.settled[e.ID]++; r.settled[e.ID] == 1 {
		r.order[e.Host] = append(r.order[e.Host], e.ID)
		r.source[e.Source] = true
	}
	if e.ID[0] == '7' && e.ID[1] < '8' { // one of 32
		r.refused[e.ID] = true
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	if r.rng.IntN(100) == 0 {
		r.faults["no answer"]++
		panic(http.ErrAbortHandler)
	}
}

// relayRunner runs relays of a crawl, one after the other, and kills them. A relay is a
// process of `crawler relay`, which sends the events of the crawl to the receiver.
type relayRunner struct {
	t      *testing.T
	bin    string
	name   []string // flags that name the crawl
	to     *receiver
	rng    *rand.Rand
	kills  int            // the maximum number of kills
	wait   time.Duration  // how long a relay waits for the name of a killed one
	deaths map[string]int // number of kills, by crash point
	faults []string       // errors of runs that were not killed
}

func newRelayed(t *testing.T, seed uint64, bin string, name ...string) *relayRunner {
	t.Helper()
	return &relayRunner{t: t, bin: bin, name: name, to: newReceiver(t, seed), rng: rand.New(rand.NewPCG(seed, 32)),
		kills: sized(12, 300), deaths: make(map[string]int)}
}

// run runs a relay until the relay ends or ctx is done. It returns how the relay ended,
// and its stderr.
func (r *relayRunner) run(ctx context.Context, more ...string) (state *syscall.WaitStatus, stderr string) {
	cmd := exec.CommandContext(ctx, r.bin, slices.Concat([]string{"relay", "--to", r.to.server.URL, "--relay", "index"}, r.name, more)...)
	var text bytes.Buffer
	cmd.Stderr = &text
	_ = cmd.Run() // ProcessState says how it ended
	if cmd.ProcessState == nil {
		return nil, text.String()
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return &status, text.String()
}

func ending(state *syscall.WaitStatus) string {
	switch {
	case state == nil:
		return "it was not started"
	case state.Signaled():
		return state.Signal().String()
	}
	return fmt.Sprint("exit code ", state.ExitStatus())
}

// runUntil runs relays until ctx is done. It kills the first r.kills relays, after some
// time or at a crash point.
func (r *relayRunner) runUntil(ctx context.Context) {
	points := []string{"publish", "acknowledgement", "cursor"}
	for n := 0; ctx.Err() == nil; n++ {
		limit, cancel := ctx, context.CancelFunc(func() {})
		var more []string
		why := "any moment"
		switch {
		case n >= r.kills:
			why = ""
		case n%2 == 0:
			why = points[n/2%len(points)]
			more = []string{"--crash-at", why + ":" + strconv.Itoa(1+r.rng.IntN(20))}
		default:
			limit, cancel = context.WithTimeout(ctx, r.wait+time.Duration(100+r.rng.IntN(900))*time.Millisecond)
		}
		state, stderr := r.run(limit, more...)
		cancel()
		switch {
		case ctx.Err() != nil:
		case state != nil && state.Signaled() && state.Signal() == syscall.SIGKILL:
			r.deaths[why]++
		// The crawl is not yet created.
		case strings.Contains(stderr, "no crawl"), strings.Contains(stderr, "no such crawl"), strings.Contains(stderr, "crawler migrate"):
			n--
			time.Sleep(50 * time.Millisecond)
		default:
			r.faults = append(r.faults, fmt.Sprintf("%s: %s", ending(state), stderr))
			return
		}
	}
}

// runDuring runs relays during a call of the function crawl, and then delivers the
// remaining events.
func (r *relayRunner) runDuring(crawl func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	var keeping sync.WaitGroup
	keeping.Go(func() { r.runUntil(ctx) })
	defer keeping.Wait()
	defer cancel()
	crawl()
	cancel()
	keeping.Wait()
	for _, fault := range r.faults {
		r.t.Errorf("a relay ended: %s", fault)
	}
	last, stop := context.WithTimeout(r.t.Context(), patience())
	defer stop()
	if state, stderr := r.run(last, "--drain"); state == nil || state.ExitStatus() != 0 {
		r.t.Errorf("the last relay ended with %s:\n%s", ending(state), stderr)
	}
}

// ask runs a crawler command for the crawl. Its exit code must be 0.
func (r *relayRunner) ask(args ...string) end {
	r.t.Helper()
	e := command(r.t, r.bin, slices.Concat(args, r.name)...).wait()
	if e.code != 0 {
		r.t.Fatalf("crawler %s: exit code %d\n%s", strings.Join(args, " "), e.code, e.stderr)
	}
	return e
}

// judge compares the delivered events with the set want: the ids of the events of all
// records. Each of these events must have been delivered at least once, and no other
// event. The dead letters, which the crawl stores, must be the refused events. Each element
// of orders is a list of events. The events of one host must have been delivered in the
// order of the list, but see judgeOrder for exceptions.
func (r *relayRunner) judge(want map[string]bool, orders ...[]event) {
	r.t.Helper()
	to := r.to
	to.mu.Lock()
	defer to.mu.Unlock()
	missing, unexpected, repeats := 0, 0, 0
	for id := range want {
		if to.settled[id] == 0 {
			missing++
		}
	}
	for id, times := range to.settled {
		if !want[id] {
			unexpected++
		}
		repeats += times - 1
	}
	if missing+unexpected > 0 || len(want) == 0 {
		r.t.Errorf("%d of %d events were not delivered; %d delivered events have no record", missing, len(want), unexpected)
	}
	if len(to.source) != 1 {
		r.t.Errorf("the sources are %q, want one", slices.Collect(maps.Keys(to.source)))
	}
	dead := make(map[string]bool)
	for line := range strings.Lines(r.ask("relay", "dead", "list", "--relay", "index", "--json").stdout) {
		var letter struct{ Event event }
		if err := json.Unmarshal([]byte(line), &letter); err != nil {
			r.t.Fatal(err)
		}
		dead[letter.Event.ID] = true
	}
	if !maps.Equal(dead, to.refused) {
		r.t.Errorf("%d dead letters, want those of the %d refused events", len(dead), len(to.refused))
	}
	in := make(map[string]int) // the number of orders that contain an event
	for _, order := range orders {
		for _, e := range order {
			in[e.ID]++
		}
	}
	for _, order := range orders {
		r.judgeOrder(order, in)
	}
	figure(r.t, "events", "%d, %d of them dead letters; %d sent again", len(want), len(dead), repeats)
	figure(r.t, "relays", "killed %s", formatCounts(r.deaths))
	figure(r.t, "faults", "%s", formatCounts(to.faults))
}

// judgeOrder checks that the events of each host were delivered in the given order. It
// ignores events that are in doubt (see journalOf), and events that several orders contain.
func (r *relayRunner) judgeOrder(order []event, in map[string]int) {
	r.t.Helper()
	at := make(map[string]int)
	hosts := make(map[string]bool)
	for i, e := range order {
		if in[e.ID] == 1 && !e.inDoubt {
			at[e.ID], hosts[e.Host] = i+1, true
		}
	}
	for host := range hosts {
		last := 0
		for _, id := range r.to.order[host] {
			if at[id] == 0 {
				continue
			}
			if at[id] < last {
				r.t.Errorf("an event of %s was delivered before an earlier one", host)
				break
			}
			last = at[id]
		}
	}
}

// eventsIn returns the events of the records in dir, in the order of the records. It
// ignores an incomplete last line, which a killed worker can leave.
func eventsIn(t *testing.T, dir string) (all []event) {
	t.Helper()
	text := records(t, dir)
	for _, l := range parse(t, text[:bytes.LastIndexByte(text, '\n')+1]) {
		if l.URL != "" { // a line without a URL only cancels an earlier record
			all = append(all, event{ID: l.id(), Host: l.Host})
		}
	}
	return all
}

// journalOf returns the events of a worker's journal (its record files), in the order of the
// journal. An event is in doubt if the journal does not show whether Redis accepted the
// event's record before the worker died.
func journalOf(t *testing.T, dir string) (all []event) {
	t.Helper()
	reader := record.Reader{Dir: dir}
	doubt, err := reader.Doubt()
	end, err2 := reader.WholeLines()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	tail := reader.Tail(record.Place{File: 1})
	defer tail.Close()
	for {
		text, err := tail.Next(end)
		if errors.Is(err, io.EOF) {
			return all
		}
		var l line
		if err := errors.Join(err, json.Unmarshal(text, &l)); err != nil {
			t.Fatal(err)
		}
		at := tail.At()
		at.Offset -= int64(len(text))
		if l.URL != "" { // a line without a URL only cancels an earlier record
			all = append(all, event{ID: l.id(), Host: l.Host, inDoubt: doubt.Has(at) || !at.Before(doubt.Answered)})
		}
	}
}

// TestRelayBesideCrawl repeatedly kills a crawl and its relay, which also dies at its
// crash points. The receiver is unreliable. It must get exactly the events of the
// records, and the events of each host in order.
func TestRelayBesideCrawl(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	rng := rand.New(rand.NewPCG(seed, 31))
	web := hardWeb(t, seed)
	flags := append(hardFlags(web), "--rotate", sized("16KiB", "64KiB"), "--compress", "--checkpoint-adds", sized("60", "1000"))
	c := newCrawl(t, append(flags, web.Seeds()...)...)
	r := newRelayed(t, seed, c.bin, "--dir", c.dir)
	kills := drawKills(rng)[:sized(3, 20)]
	c.runAndKill(web, kills[0]) // now the crawl exists
	r.runDuring(func() {
		for _, k := range kills[1:] {
			c.runAndKill(web, k)
		}
		c.finish()
	})
	figure(t, "kills", "%d of the crawl", len(kills))
	r.judge(ids(parse(t, records(t, c.dir))), eventsIn(t, c.dir))
}

// TestRelayOfWorkers is TestRelayBesideCrawl with workers on Redis, which have their own
// records and are killed. The events of a host must come in the order of the worker's
// journal, except for events in doubt (see journalOf). Such events can be delivered after
// later ones (docs/reference/events.md).
func TestRelayOfWorkers(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	web := hardWeb(t, seed)
	m := newTeam(t, server.URL(), rand.New(rand.NewPCG(seed, 33)), sharedFlags(web, "--partitions", "32", "--compress")...)
	m.points = drawPoints(m.rng)
	m.killEvery, m.mostKills = 2*time.Second, sized(2, 100)
	r := newRelayed(t, seed, m.bin, slices.Concat(m.name, []string{"--dir", m.workersDir})...)
	r.runDuring(func() { m.run(sized(2, 4)) })
	dirs, err := filepath.Glob(filepath.Join(m.workersDir, "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatal(dirs, err)
	}
	var journals [][]event
	judged, inDoubt := 0, 0
	for _, dir := range dirs {
		journal := journalOf(t, dir)
		for _, e := range journal {
			if judged++; e.inDoubt {
				inDoubt++
			}
		}
		journals = append(journals, journal)
	}
	figure(t, "journals", "%d, with %d lines, %d of them in doubt", len(dirs), judged, inDoubt)
	if inDoubt == judged {
		t.Errorf("all %d lines are in doubt, so no order was checked", judged)
	}
	r.judge(ids(parse(t, m.export())), journals...)
}

// beganWithoutPostgres matches the error of a worker that could not reach Postgres when it
// began. The alternatives are the statements that a worker executes first.
var beganWithoutPostgres = regexp.MustCompile(`: (read the schema's version|find the crawl|read the windows|check the outbox):`)

// TestRelayOfRows is TestRelayBesideCrawl with records in Postgres, which is also
// killed. A worker that starts while Postgres is down fails and is replaced.
func TestRelayOfRows(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	web := hardWeb(t, seed)
	m := hardExactCrawl(t, web, rand.New(rand.NewPCG(seed, 35)), "postgres")
	m.points = drawPoints(m.rng)
	m.killEvery, m.mostKills = 2*time.Second, sized(2, 30)
	m.mayFail, m.tryAgain = beganWithoutPostgres.MatchString, 100
	m.strike(web, sized(1, 10), sized(300, 700), func() error {
		if err := m.database.Kill(); err != nil {
			return err
		}
		return m.database.Restart()
	})
	r := newRelayed(t, seed, m.bin, m.name...)
	r.wait = 5 * time.Second // the default of pgstore.Config.HoldTime
	r.runDuring(func() { m.work(sized(2, 3)) })
	var order []event
	for line := range strings.Lines(r.ask("relay", "--to", "-", "--drain", "--relay", "fresh").stdout) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		order = append(order, e)
	}
	r.judge(ids(parse(t, m.export())), order)
}

// ids returns the ids of the events of records.
func ids(lines []line) map[string]bool {
	all := make(map[string]bool)
	for _, l := range lines {
		all[l.id()] = true
	}
	return all
}
