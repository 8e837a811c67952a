package exacttest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// ModelSet makes random calls to a set that the function open returns, and to a Memory with
// the same clock. The argument steps is the number of calls. ModelSet compares every
// answer. Equal seeds make equal calls. A run that fails prints the seed and the latest
// calls.
func ModelSet(t *testing.T, open func(t *testing.T, opt Options) Set, seed uint64, steps int) {
	t.Helper()
	t.Logf("replay with -seed=%d", seed)
	if err := suite.Try(t, modelRun(seed, steps), driving(open)); err != nil {
		t.Error(err)
	}
}

func modelRun(seed uint64, steps int) testCase {
	// The player's clock moves in steps of 10 s. Windows and ages end between two steps.
	windows := exact.Windows{1: 45 * time.Second, 2: 205 * time.Second}
	return testCase{fmt.Sprintf("seed=%d", seed), windows, func(d *driver) {
		p := &player{
			driver: d, rng: rand.New(rand.NewPCG(seed, 3)),
			model: NewMemory(Options{Windows: windows, Now: d.Clock.Now}),
		}
		for range steps {
			p.step()
		}
		p.verify()
	}}
}

// player makes random calls to two sets and compares the answers.
type player struct {
	*driver
	rng   *rand.Rand
	model *Memory
}

const modelKeys = 60

// key returns a random key. Equal keys always have the same class, but random other values.
func (p *player) key() exact.Key {
	n := p.rng.IntN(modelKeys)
	key := key(n)
	key.Class = frontier.Class(1 + n%3)
	key.Depth, key.Hops = uint16(p.rng.IntN(100)), uint8(p.rng.IntN(256))
	key.Priority = frontier.Priority(p.rng.IntN(int(frontier.Priorities)))
	return key
}

// ref returns the Ref of a random key, usually in its current round, and the class of
// the key.
func (p *player) ref() (exact.Ref, frontier.Class) {
	key := p.key()
	status, _ := p.model.Lookup(p.Ctx, key.Fingerprint)
	round := status.Round
	switch p.rng.IntN(8) {
	case 0:
		round += 1 + p.rng.Uint32N(2)
	case 1:
		round = max(round, 1) - 1
	}
	return exact.Ref{Fingerprint: key.Fingerprint, Round: round}, key.Class
}

func (p *player) step() {
	suite.Step(p.rng, []suite.Move{
		{30, p.decideSome}, {20, p.markQueued}, {8, p.withdrawSome}, {20, p.finishSome},
		{15, p.wait}, {4, p.staleOnes}, {4, p.sweepAll}, {4, p.verify},
	})
}

func (p *player) wait() {
	d := time.Duration(p.rng.IntN(6)) * 10 * time.Second
	p.Note("wait %v", d)
	p.Clock.Advance(d)
}

func (p *player) decideSome() {
	asked := make([]exact.Key, p.rng.IntN(12))
	for i := range asked {
		asked[i] = p.key()
	}
	want, _ := p.model.Decide(p.Ctx, asked)
	got := p.decide(asked...)
	for i := range asked {
		p.Note("decide %s: %+v", asked[i].URL, got[i])
		p.Require(got[i] == want[i], "Decide(%q) = %+v, want %+v", asked[i].URL, got[i], want[i])
	}
}

func (p *player) markQueued() { p.callBoth("Queued", exact.Set.Queued) }

func (p *player) withdrawSome() { p.callBoth("Withdraw", exact.Set.Withdraw) }

// callBoth calls the same method of the two sets with the same random keys.
func (p *player) callBoth(name string, call func(exact.Set, context.Context, []exact.Ref) error) {
	refs := make([]exact.Ref, p.rng.IntN(8))
	for i := range refs {
		refs[i], _ = p.ref()
	}
	p.Note("%s %x", name, refs)
	_ = call(p.model, p.Ctx, refs)
	p.Must(call(p.Set, p.Ctx, refs), name)
}

func (p *player) finishSome() {
	var ends []exact.Finished
	var rows []exact.Row
	for range p.rng.IntN(6) {
		ref, class := p.ref()
		outcome, status := frontier.Outcomes[p.rng.IntN(len(frontier.Outcomes))].Outcome, p.rng.IntN(600)
		ends = append(ends, exact.Finished{Ref: ref, Class: class, Outcome: outcome, Status: status})
		if p.rng.IntN(2) == 0 {
			rows = append(rows, exact.Row{
				Ref: ref, URL: "https://host.test/", Fetched: p.Clock.Now(), Outcome: outcome, Status: status,
				Record: fmt.Appendf(nil, `{"n":%d}`, p.Calls()),
			})
		}
		p.Note("finish %x: %s, %d", ref, outcome, status)
	}
	_ = p.model.Finish(p.Ctx, ends, rows)
	p.Must(p.Finish(p.Ctx, ends, rows), "Finish")
}

func (p *player) staleOnes() {
	age := 35*time.Second + time.Duration(p.rng.IntN(5))*10*time.Second
	p.Note("stale %v", age)
	want, _ := p.model.Stale(p.Ctx, age, modelKeys)
	p.sameEntries("Stale", p.stale(age, modelKeys), want)
}

func (p *player) sameEntries(what string, got, want []exact.Entry) {
	for _, entries := range [][]exact.Entry{got, want} {
		slices.SortFunc(entries, func(a, b exact.Entry) int { return bytes.Compare(a.Fingerprint[:], b.Fingerprint[:]) })
	}
	p.Require(slices.Equal(got, want), "%s returned %+v, want %+v", what, got, want)
}

func (p *player) sweepAll() {
	p.Note("sweep")
	want, wantLag, _ := p.model.Sweep(p.Ctx, modelKeys)
	got, lag := p.sweep(modelKeys)
	p.Require(got == want && lag == wantLag, "Sweep = %d, %v; want %d, %v", got, lag, want, wantLag)
}

// verify compares the complete content of the two sets.
func (p *player) verify() {
	for n := range modelKeys {
		want, _ := p.model.Lookup(p.Ctx, print(n))
		got := p.status(key(n))
		p.Require(about(got.SeenFor, want.SeenFor) && (got.SeenFor > 0) == (want.SeenFor > 0),
			"Lookup of key %d: SeenFor = %v, want %v", n, got.SeenFor, want.SeenFor)
		got.SeenFor = want.SeenFor
		p.Require(got == want, "Lookup of key %d = %+v, want %+v", n, got, want)
	}
	want, _ := p.model.Waiting(p.Ctx, [16]byte{}, modelKeys)
	p.sameEntries("Waiting", p.waiting(1+p.rng.IntN(modelKeys)), want)
	wantStats, _ := p.model.Stats(p.Ctx)
	stats, err := p.Stats(p.Ctx)
	p.Must(err, "Stats")
	p.Require(about(stats.Lag, wantStats.Lag), "Stats.Lag = %v, want %v", stats.Lag, wantStats.Lag)
	stats.Lag = wantStats.Lag
	p.Require(stats == wantStats, "Stats are %+v, want %+v", stats, wantStats)
	records, _ := p.model.Records(p.Ctx)
	p.wantRecords(records...)
}
