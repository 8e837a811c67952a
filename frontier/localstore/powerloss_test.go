package localstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// TestPowerLoss makes random calls, simulates a power loss at a random write, opens the
// files that are left, and continues. The crawl must have the effects of all calls that
// were answered.
func TestPowerLoss(t *testing.T) { // not parallel: crash.Hook is for the whole process
	runs, crashes := 4, 60
	if testing.Short() {
		crashes = 15
	}
	if *proof {
		runs, crashes = 100, 200
	}
	first, runs := suite.FirstSeed(*seed, runs)
	for i := range runs {
		seed := first + uint64(i)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Logf("replay with -seed=%d (the schedule of goroutines differs)", seed)
			newOutage(t, seed).run(crashes)
		})
	}
}

// outage is a crawl on a disk that loses writes that were not synced.
type outage struct {
	t   *testing.T
	rng *rand.Rand
	cfg Config
	now atomic.Int64 // µs since 1970; checkpoints read it concurrently

	disk  *vfs.MemFS
	store *Store
	ids   uint64

	mu     sync.Mutex // guards the fields below; any goroutine that writes can cause the power loss
	known  ledger
	until  int // number of writes until the power loss
	chaos  *rand.Rand
	lost   *vfs.MemFS // the disk after the power loss; nil before
	atLoss ledger     // the value of known at the power loss
}

// ledger is the state of the crawl as the test knows it from answers.
type ledger struct {
	urls    map[string]fate
	records map[string]bool // by line; false until the call that writes it is answered
	leases  map[string]held // by host
	asked   bool            // a call of Lease, Extend or Retry is not answered yet
}

// fate is the state of an offered URL as the test knows it.
type fate struct {
	item       frontier.Offer
	added      bool           // the URL is in the store: it was answered added or seen
	won        bool           // answered added
	state      frontier.State // Queued even while the item is leased
	pending    bool           // a call that changes it is not answered yet
	deliveries uint8
	round      uint32
}

type held struct {
	id       frontier.LeaseID
	items    []frontier.Item // not completed
	handed   int
	inFlight int
	pending  bool
}

func (l ledger) clone() ledger {
	leases := maps.Clone(l.leases)
	for host, h := range leases {
		h.items = slices.Clone(h.items)
		leases[host] = h
	}
	return ledger{maps.Clone(l.urls), maps.Clone(l.records), leases, l.asked}
}

func newOutage(t *testing.T, seed uint64) *outage {
	rng := rand.New(rand.NewPCG(seed, 1))
	o := &outage{
		t: t, rng: rng, chaos: rand.New(rand.NewPCG(seed, 2)), disk: vfs.NewCrashableMem(),
		known: ledger{make(map[string]fate), make(map[string]bool), make(map[string]held), false},
	}
	o.cfg = Config{
		Dir: "some/crawl", Policy: every(time.Second), LeaseTTL: time.Hour, CheckpointAdds: 25,
		Now:    func() time.Time { return time.UnixMicro(o.now.Load()) },
		Filter: membits.Config{Capacity: 10_000, Shards: 4, Growth: membits.GrowthOff},
	}
	if rng.IntN(3) == 0 {
		o.cfg.Filter = membits.Config{Capacity: 64, Shards: 4} // grows
	}
	return o
}

// tick counts a write just before it is made.
func (o *outage) tick() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.until--; o.until == 0 {
		o.cut()
	}
}

func (o *outage) cut() {
	percent := []int{0, 100, o.chaos.IntN(101), o.chaos.IntN(101)}[o.chaos.IntN(4)]
	o.lost = o.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: o.chaos})
	o.atLoss = o.known.clone()
}

func (o *outage) config() Config {
	cfg := o.cfg
	cfg.FS = errorfs.Wrap(o.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			o.tick()
		}
		return nil
	}))
	cfg.OpenOutput = func(_ frontier.Identity, position frontier.Position) (frontier.Output, error) {
		return openLines(cfg.FS, cfg.Dir, position)
	}
	return cfg
}

func (o *outage) run(crashes int) {
	crash.Hook(func(string) { o.tick() })
	defer crash.Hook(nil)
	for n := range crashes {
		o.life()
		if o.t.Failed() {
			o.t.Logf("failed after %d power losses", n)
			return
		}
	}
}

// life opens the crawl on the disk after a power loss, checks it, and works until the next
// power loss.
func (o *outage) life() {
	o.mu.Lock()
	o.until, o.lost = 1+o.rng.IntN(150), nil
	if o.rng.IntN(4) == 0 {
		o.until = 1 + o.rng.IntN(30) // soon, perhaps while the crawl opens
	}
	o.mu.Unlock()
	s, err := Open(o.config())
	if err != nil {
		o.t.Fatalf("open after the power was lost: %v", err)
	}
	o.store = s
	o.verify()
	for range 60 {
		if o.dark() || o.t.Failed() {
			break
		}
		o.step()
	}
	o.mu.Lock()
	if o.lost == nil {
		o.cut()
	}
	o.until = 0
	o.mu.Unlock()
	if err := s.Close(); err != nil {
		o.t.Errorf("Close: %v", err)
	}
	o.disk, o.known = o.lost, o.atLoss
}

func (o *outage) dark() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost != nil
}

// step makes some calls at once, so that they share a group.
func (o *outage) step() {
	o.now.Add(int64(o.rng.IntN(3_000_000)))
	if o.rng.IntN(15) == 0 {
		o.ask(o.retry)
		return
	}
	var calls []func()
	for range 1 + o.rng.IntN(3) {
		switch o.rng.IntN(6) {
		case 0, 1:
			calls = append(calls, o.add())
		case 5: // a call that only reads, in the group of a change
			calls = append(calls, func() { _, _ = o.store.Stats(context.Background()) })
		case 2:
			o.ask(o.lease)
			o.ask(o.extend)
		default:
			if call := o.complete(); call != nil {
				calls = append(calls, call)
			}
		}
	}
	var wg sync.WaitGroup
	for _, call := range calls {
		wg.Go(call)
	}
	wg.Wait()
}

func (o *outage) item() frontier.Offer {
	host := fmt.Sprintf("h%d.test", o.rng.IntN(5))
	item := frontier.Offer{URL: fmt.Sprintf("https://%s/%d", host, o.rng.IntN(80)), Host: host, Priority: frontier.Priority(o.rng.IntN(3))}
	if len(item.URL)%2 == 0 {
		item.Class = frontier.Exact
	}
	if o.rng.IntN(8) == 0 {
		item.Delay = time.Duration(o.rng.IntN(5000)) * time.Millisecond
	}
	return item
}

func (o *outage) items() []frontier.Offer {
	items := make([]frontier.Offer, o.rng.IntN(8))
	for i := range items {
		items[i] = o.item()
	}
	return items
}

// offered adds items to the ledger before they are offered.
func (o *outage) offered(items []frontier.Offer) {
	for _, item := range items {
		if _, ok := o.known.urls[item.URL]; !ok {
			o.known.urls[item.URL] = fate{item: item, state: frontier.Queued}
		}
	}
}

func (o *outage) add() func() {
	items := o.items()
	o.mu.Lock()
	o.offered(items)
	o.mu.Unlock()
	return func() {
		verdicts, err := o.store.Add(context.Background(), items)
		if err != nil {
			o.t.Errorf("Add: %v", err)
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		for i, item := range items {
			f := o.known.urls[item.URL]
			if verdicts[i].Answer == frontier.Added {
				if f.won {
					o.t.Errorf("%s was answered added twice", item.URL)
				}
				f.won = true
			}
			f.added = true
			o.known.urls[item.URL] = f
		}
	}
}

// ask makes a call that can change any host.
func (o *outage) ask(call func()) {
	o.mu.Lock()
	o.known.asked = true
	o.mu.Unlock()
	call()
	o.mu.Lock()
	o.known.asked = false
	o.mu.Unlock()
}

func (o *outage) lease() {
	o.ids++
	var id frontier.LeaseID
	binary.BigEndian.PutUint64(id[:], o.ids)
	request := frontier.LeaseRequest{IDs: []frontier.LeaseID{id}, InFlight: o.rng.IntN(4)}
	grant, err := o.store.Lease(context.Background(), request)
	if err != nil {
		o.t.Errorf("Lease: %v", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range grant.Leases {
		o.known.leases[l.Host] = held{id, l.Items, len(l.Items), max(request.InFlight, 1), false}
	}
}

// extend tops up a lease that no other call of this step uses.
func (o *outage) extend() {
	host, h, ok := o.free()
	if !ok {
		return
	}
	extension, err := o.store.Extend(context.Background(), h.id, frontier.TopUp{Items: len(h.items) + 2, Known: h.handed})
	if err != nil {
		o.t.Errorf("Extend: %v", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	h.items = append(slices.Clone(h.items), extension.Items...)
	h.handed += len(extension.Items)
	o.known.leases[host] = h
}

// free returns a lease that no other call of this step uses.
func (o *outage) free() (host string, _ held, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var free []string
	for host, h := range o.known.leases {
		if !h.pending {
			free = append(free, host)
		}
	}
	if len(free) == 0 {
		return "", held{}, false
	}
	slices.Sort(free)
	host = free[o.rng.IntN(len(free))]
	return host, o.known.leases[host], true
}

func (o *outage) retry() {
	if _, err := o.store.Retry(context.Background(), frontier.Failures{}); err != nil {
		o.t.Errorf("Retry: %v", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for url, f := range o.known.urls {
		if f.state == frontier.Failed {
			f.state, f.deliveries, f.round = frontier.Queued, 0, f.round+1
			o.known.urls[url] = f
		}
	}
}

// complete completes some items of a lease that no other call of this step
// uses.
func (o *outage) complete() func() {
	host, h, ok := o.free()
	if !ok {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var done []frontier.Completion
	after := make(map[string]fate)
	var rest []frontier.Item
	for _, item := range h.items {
		if o.rng.IntN(2) == 0 {
			rest = append(rest, item)
			continue
		}
		c, f := o.completion(item)
		o.offered(c.Links)
		before := o.known.urls[item.URL]
		before.pending = true
		o.known.urls[item.URL] = before
		after[item.URL] = f
		done = append(done, c)
	}
	update := frontier.HostUpdate{Due: time.Second, Delay: time.Second, End: o.rng.IntN(3) == 0}
	h.pending = true
	o.known.leases[host] = h
	return func() {
		if err := o.store.Complete(context.Background(), h.id, done, update); err != nil {
			o.t.Errorf("Complete: %v", err)
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		maps.Copy(o.known.urls, after)
		for _, c := range done {
			for _, link := range c.Links {
				f := o.known.urls[link.URL]
				f.added = true
				o.known.urls[link.URL] = f
			}
			if c.Disposition == frontier.Finish {
				o.known.records[line(c.Item, o.round(c.Item))] = true
			}
		}
		h.items, h.pending = rest, false
		o.known.leases[host] = h
		if update.End {
			delete(o.known.leases, host)
		}
	}
}

func (o *outage) round(print bloomstore.Fingerprint) uint32 {
	for _, f := range o.known.urls {
		if o.store.Hasher().Fingerprint(f.item.URL) == print {
			return f.round
		}
	}
	return 0
}

// completion returns a random completion of an item, and the state of the URL after that
// completion.
func (o *outage) completion(item frontier.Item) (frontier.Completion, fate) {
	f := o.known.urls[item.URL]
	c := frontier.Completion{Item: item.Fingerprint, Links: o.items()}
	switch o.rng.IntN(5) {
	case 0:
		c.Disposition, c.RetryIn = frontier.Retry, time.Duration(o.rng.IntN(4))*time.Second
		return c, f
	case 1:
		c.Disposition = frontier.GiveBack
		return c, f
	case 2:
		c.Outcome = frontier.Network
	default:
		c.Outcome, c.Page = frontier.OK, true
	}
	f.state = c.Outcome.State()
	o.known.records[line(c.Item, item.Round)] = false
	output := o.store.output.(*lines)
	c.Record = func(frontier.LinkCounts) error { return output.write(c.Item, item.Round) }
	return c, f
}

func bits(f *membits.Filter) []byte {
	var b bytes.Buffer
	_, _ = f.Snapshot([16]byte{}).WriteTo(&b)
	return b.Bytes()
}
