package exacttest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/exact"
)

// ModelSet makes steps random calls of a set that open returns, and of an
// exact.Memory with the same clock, and compares every answer. Equal seeds make
// equal calls; a failing run prints the seed and the calls before.
func ModelSet(t *testing.T, open func(t *testing.T, opt Options) exact.Set, seed uint64, steps int) {
	t.Helper()
	t.Logf("replay with -seed=%d", seed)
	run := modelRun(seed, steps)
	if err := run.run(t.Context(), func(opt Options) exact.Set { return open(t, opt) }); err != nil {
		t.Error(err)
	}
}

func modelRun(seed uint64, steps int) testCase {
	return testCase{fmt.Sprintf("seed=%d", seed), func(open opener) {
		// Windows and ages end between two ticks of the player's clock.
		windows := exact.Windows{1: 45 * time.Second, 2: 205 * time.Second}
		d := open(windows)
		p := &player{
			driver: d, rng: rand.New(rand.NewPCG(seed, 3)),
			model: exact.NewMemory(exact.MemoryConfig{Windows: windows, Now: d.clock.Now}),
		}
		defer p.explain()
		for range steps {
			p.step()
		}
		p.verify()
	}}
}

// player makes random calls of two sets and compares.
type player struct {
	*driver
	rng   *rand.Rand
	model *exact.Memory
	trace []string
}

// explain adds the calls so far to a failure.
func (p *player) explain() {
	switch found := recover().(type) {
	case nil:
	case failure:
		from := max(len(p.trace)-100, 0)
		panic(failure{fmt.Errorf("%w\nafter %d calls, the last of them:\n%s", found.error, len(p.trace), strings.Join(p.trace[from:], "\n"))})
	default:
		panic(found)
	}
}

func (p *player) note(format string, args ...any) {
	p.trace = append(p.trace, p.clock.Now().Format("15:04:05  ")+fmt.Sprintf(format, args...))
}

const modelKeys = 60

// key returns a random key; what it is like depends on chance, but for its class.
func (p *player) key() exact.Key {
	n := p.rng.IntN(modelKeys)
	key := key(n)
	key.Class = frontier.Class(1 + n%3)
	key.Depth = uint16(p.rng.IntN(100))
	return key
}

// ref names a random key, mostly in the round that it is in.
func (p *player) ref() (exact.Ref, frontier.Class) {
	key := p.key()
	status, _ := p.model.Lookup(p.ctx, key.Fingerprint)
	round := status.Round
	switch p.rng.IntN(8) {
	case 0:
		round++
	case 1:
		round = max(round, 1) - 1
	}
	return exact.Ref{Fingerprint: key.Fingerprint, Round: round}, key.Class
}

func (p *player) refs() []exact.Ref {
	refs := make([]exact.Ref, p.rng.IntN(8))
	for i := range refs {
		refs[i], _ = p.ref()
	}
	return refs
}

func (p *player) step() {
	moves := []struct {
		weight int
		move   func()
	}{
		{30, p.decideSome}, {20, p.markQueued}, {8, p.withdrawSome}, {20, p.finishSome},
		{15, p.wait}, {4, p.staleOnes}, {4, p.sweepAll}, {4, p.verify},
	}
	total := 0
	for _, m := range moves {
		total += m.weight
	}
	n := p.rng.IntN(total)
	for _, m := range moves {
		if n -= m.weight; n < 0 {
			m.move()
			return
		}
	}
}

func (p *player) wait() {
	d := time.Duration(p.rng.IntN(6)) * 10 * time.Second
	p.note("wait %v", d)
	p.clock.advance(d)
}

func (p *player) decideSome() {
	asked := make([]exact.Key, p.rng.IntN(12))
	for i := range asked {
		asked[i] = p.key()
	}
	want, _ := p.model.Decide(p.ctx, asked)
	got := p.decide(asked...)
	for i := range asked {
		p.note("decide %s: %+v", asked[i].URL, got[i])
		if got[i] != want[i] {
			p.failf("Decide(%q) = %+v, want %+v", asked[i].URL, got[i], want[i])
		}
	}
}

func (p *player) markQueued() {
	refs := p.refs()
	p.note("queued %x", refs)
	_ = p.model.Queued(p.ctx, refs)
	p.must(p.Queued(p.ctx, refs), "Queued")
}

func (p *player) withdrawSome() {
	refs := p.refs()
	p.note("withdraw %x", refs)
	_ = p.model.Withdraw(p.ctx, refs)
	p.must(p.Withdraw(p.ctx, refs), "Withdraw")
}

func (p *player) finishSome() {
	var ends []exact.Finished
	var rows []exact.Row
	outcomes := []frontier.Outcome{frontier.OK, frontier.Redirect, frontier.Network}
	for range p.rng.IntN(6) {
		ref, class := p.ref()
		outcome, status := outcomes[p.rng.IntN(len(outcomes))], p.rng.IntN(600)
		ends = append(ends, exact.Finished{Ref: ref, Class: class, Outcome: outcome, Status: status})
		if p.rng.IntN(2) == 0 {
			rows = append(rows, exact.Row{
				Ref: ref, URL: "https://host.test/", Fetched: p.clock.Now(), Outcome: outcome, Status: status,
				Record: fmt.Appendf(nil, `{"n":%d}`, len(p.trace)),
			})
		}
		p.note("finish %x: %s, %d", ref, outcome, status)
	}
	_ = p.model.Finish(p.ctx, ends, rows)
	p.must(p.Finish(p.ctx, ends, rows), "Finish")
}

func (p *player) staleOnes() {
	age := 35*time.Second + time.Duration(p.rng.IntN(5))*10*time.Second
	p.note("stale %v", age)
	want, _ := p.model.Stale(p.ctx, age, modelKeys)
	p.sameEntries("Stale", p.stale(age, modelKeys), want)
}

func (p *player) sameEntries(what string, got, want []exact.Entry) {
	for _, entries := range [][]exact.Entry{got, want} {
		slices.SortFunc(entries, func(a, b exact.Entry) int { return bytes.Compare(a.Fingerprint[:], b.Fingerprint[:]) })
	}
	if !slices.Equal(got, want) {
		p.failf("%s returned %+v, want %+v", what, got, want)
	}
}

func (p *player) sweepAll() {
	p.note("sweep")
	want, wantLag, _ := p.model.Sweep(p.ctx, modelKeys)
	if got, lag := p.sweep(modelKeys); got != want || lag != wantLag {
		p.failf("Sweep = %d, %v, want %d, %v", got, lag, want, wantLag)
	}
}

// verify compares all that can be asked.
func (p *player) verify() {
	for n := range modelKeys {
		want, _ := p.model.Lookup(p.ctx, print(n))
		got := p.status(key(n))
		if !about(got.SeenFor, want.SeenFor) || (got.SeenFor > 0) != (want.SeenFor > 0) {
			p.failf("key %d counts as seen for %v, want %v", n, got.SeenFor, want.SeenFor)
		}
		got.SeenFor = want.SeenFor
		if got != want {
			p.failf("key %d is %+v, want %+v", n, got, want)
		}
	}
	var all []exact.Entry
	all = append(all, p.waiting(1+p.rng.IntN(modelKeys))...)
	want, _ := p.model.Waiting(p.ctx, [16]byte{}, modelKeys)
	p.sameEntries("Waiting", all, want)
	wantStats, _ := p.model.Stats(p.ctx)
	stats, err := p.Stats(p.ctx)
	p.must(err, "Stats")
	if !about(stats.Lag, wantStats.Lag) {
		p.failf("the lag is %v, want %v", stats.Lag, wantStats.Lag)
	}
	stats.Lag = wantStats.Lag
	if stats != wantStats {
		p.failf("Stats are %+v, want %+v", stats, wantStats)
	}
	records, _ := p.model.Records(p.ctx)
	p.wantRecords(records...)
}
