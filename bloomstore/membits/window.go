package membits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/internal/positions"
	"github.com/bloomfrontier/crawler/sizing"
)

// WindowConfig describes a Window. Span is required.
type WindowConfig struct {
	Span        time.Duration // how long a key is remembered at least; a second for each generation, or more
	Generations int           // generations of one span, up to sizing.MaxGenerations; 0 means sizing.RecommendedGenerations
	Capacity    uint64        // new keys in the time of one span; 0 means 10 million
	FPR         float64       // highest false-positive rate of all generations together, in [1e-9, 1); 0 means 1e-6
	Shards      int           // see Config
}

// MinWindowFPR is the lowest false-positive rate of a Window. Its parts, for the generations, are
// not below the lowest rate of a Filter.
const MinWindowFPR = 1e-9

// Complete returns c with zero fields filled in, or all its faults.
func (c WindowConfig) Complete() (WindowConfig, error) {
	c.Capacity, c.FPR = cmp.Or(c.Capacity, 10_000_000), cmp.Or(c.FPR, 1e-6)
	var errs []error
	if !(c.FPR >= MinWindowFPR && c.FPR < 1) { // NaN is refused, too
		return c, fmt.Errorf("FPR is %g, want one from %g to below 1", c.FPR, MinWindowFPR)
	}
	if c.Generations == 0 {
		c.Generations = sizing.RecommendedGenerations(c.FPR)
	}
	if c.Generations < 1 || c.Generations > sizing.MaxGenerations {
		return c, fmt.Errorf("Generations is %d, want 1 to %d", c.Generations, sizing.MaxGenerations)
	}
	if c.Span < time.Duration(c.Generations)*time.Second {
		errs = append(errs, fmt.Errorf("Span is %v, want %ds or more for %d generations", c.Span, c.Generations, c.Generations))
	}
	one, err := c.Generation().withDefaults()
	c.Shards = one.Shards
	return c, errors.Join(append(errs, err)...)
}

// Generation returns the config of the filter of one generation. The fields of c must be set.
func (c WindowConfig) Generation() Config {
	one := sizing.Window{Keys: c.Capacity, FPR: c.FPR, Generations: c.Generations}.Generation()
	return Config{Capacity: one.Keys, FPR: one.FPR, Shards: c.Shards}
}

// Number returns the number of the generation at a time: the number of parts of a span since 1970.
// Span and Generations of c must be set.
func (c WindowConfig) Number(now time.Time) int64 {
	return now.UnixNano() / int64(c.Span/time.Duration(c.Generations))
}

// Window is a bloomstore.Filter in memory that forgets: it remembers a key for a span after it was
// added, and for at most Span·(1 + 1/Generations). A look-up, or adding a key that the window
// claims, does not extend this time. A Window is safe for concurrent use.
//
// A Window reads no clock: Advance tells it the time. See sizing.Window for its generations.
type Window struct {
	config  WindowConfig
	choose  uint
	locks   []paddedMutex                // one per shard, shared by all generations
	chain   atomic.Pointer[[]Generation] // oldest first; the slice is replaced, never changed
	advance sync.Mutex                   // held while chain is replaced
}

var _ bloomstore.Filter = (*Window)(nil)

// Generation is one generation of a Window. All callers use the same filter.
type Generation struct {
	Number int64 // number of parts of a span since 1970
	Filter *Filter

	first [][]uint64 // the words of each shard of the filter's first layer; the window sets it
}

// withWords returns g with the field first.
func (g Generation) withWords() Generation {
	g.first = nil
	for _, shard := range (*g.Filter.chain.Load())[0].shards {
		g.first = append(g.first, shard.BitSet().Words())
	}
	return g
}

// NewWindow returns an empty window. The error names every fault of config.
func NewWindow(config WindowConfig, now time.Time) (*Window, error) {
	config, err := config.Complete()
	if err != nil {
		return nil, fmt.Errorf("membits: window: %w", err)
	}
	first, err := New(config.Generation())
	if err != nil {
		return nil, err
	}
	return RestoreWindow(config, []Generation{{Number: config.Number(now), Filter: first}})
}

// RestoreWindow returns a window with the given generations, in any order. The filters must have
// the config that WindowConfig.Generation returns. After the call only the window may use them.
func RestoreWindow(config WindowConfig, generations []Generation) (*Window, error) {
	config, err := config.Complete()
	if err == nil && len(generations) == 0 {
		err = errors.New("no generations")
	}
	if err != nil {
		return nil, fmt.Errorf("membits: window: %w", err)
	}
	w := &Window{
		config: config, choose: uint(bits.TrailingZeros(uint(config.Shards))),
		locks: make([]paddedMutex, config.Shards),
	}
	chain := slices.Clone(generations)
	slices.SortFunc(chain, func(a, b Generation) int { return cmp.Compare(a.Number, b.Number) })
	want, _ := config.Generation().withDefaults()
	for i, g := range chain {
		if g.Filter.config != want {
			return nil, fmt.Errorf("membits: window: generation %d: %w: it has %+v, want %+v",
				g.Number, bloomstore.ErrParamsMismatch, g.Filter.config, want)
		}
		if i > 0 && g.Number == chain[i-1].Number {
			return nil, fmt.Errorf("membits: window: two generations have the number %d", g.Number)
		}
		g.Filter.locks = w.locks
		chain[i] = g.withWords()
	}
	w.chain.Store(&chain)
	return w, nil
}

// Config returns the config of the window, without zero fields.
func (w *Window) Config() WindowConfig { return w.config }

// Generations returns the generations that are looked up, oldest first. Keys are added to the last.
func (w *Window) Generations() []Generation { return slices.Clone(*w.chain.Load()) }

// Advance tells the window the time. If a new generation has begun, Advance starts it, drops the
// generations whose keys were all added more than a span ago, and returns true. When it returns, no
// key is added to an older generation any more. A time before the newest generation changes
// nothing: if a clock is set back, keys are remembered longer.
func (w *Window) Advance(now time.Time) (started bool) {
	number := w.config.Number(now)
	if chain := *w.chain.Load(); number <= chain[len(chain)-1].Number {
		return false
	}
	return w.start(number)
}

// start starts the generation with this number, unless it is not newer than the newest one.
func (w *Window) start(number int64) (started bool) {
	w.advance.Lock()
	defer w.advance.Unlock()
	chain := *w.chain.Load()
	if number <= chain[len(chain)-1].Number {
		return false
	}
	next, _ := newChainless(w.config.Generation()) // checked by Complete
	next.chain.Store(&[]*layer{newLayer(next.shape(0))})
	next.locks = w.locks
	kept := make([]Generation, 0, len(chain)+1)
	for _, g := range chain {
		if g.Number >= number-int64(w.config.Generations) {
			kept = append(kept, g)
		}
	}
	kept = append(kept, Generation{Number: number, Filter: next}.withWords())
	w.chain.Store(&kept)
	for i := range w.locks { // wait for calls that have loaded the old chain
		w.locks[i].Lock()
		w.locks[i].Unlock() //lint:ignore SA2001 the calls that held the lock have ended
	}
	return true
}

// AddIfAbsent implements bloomstore.Filter. It returns an error only if ctx has ended before the
// call, and then adds nothing.
func (w *Window) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("add %d fingerprints: %w", len(prints), err)
	}
	added := make([]bool, len(prints))
	for i := range prints {
		_, added[i] = w.Add(prints[i])
	}
	return added, nil
}

// Contains implements bloomstore.Filter. It returns an error only if ctx has ended before the
// call.
func (w *Window) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("look up %d fingerprints: %w", len(prints), err)
	}
	known := make([]bool, len(prints))
	for i := range prints {
		known[i] = w.Has(prints[i])
	}
	return known, nil
}

// Has reports whether a generation claims to contain fp.
func (w *Window) Has(fp bloomstore.Fingerprint) bool {
	shard, draw := positions.Split(fp, w.choose)
	w.locks[shard].Lock()
	defer w.locks[shard].Unlock()
	return claimed(*w.chain.Load(), shard, draw)
}

// Claims reports for each layer of each generation, oldest first, whether it claims to contain fp.
func (w *Window) Claims(fp bloomstore.Fingerprint) (claims []bool) {
	for _, g := range *w.chain.Load() {
		claims = append(claims, g.Filter.Claims(fp)...)
	}
	return claims
}

// Claimer returns the number of the newest generation that claims to contain fp.
func (w *Window) Claimer(fp bloomstore.Fingerprint) (number int64, claimed bool) {
	for _, g := range slices.Backward(*w.chain.Load()) {
		if g.Filter.Has(fp) {
			return g.Number, true
		}
	}
	return 0, false
}

// Add adds fp to the newest generation unless a generation claims to contain it. It returns the
// number of the layer of the newest generation to which fp was added.
//
// If only one goroutine adds keys, Restore can make an equal window from a journal of these
// results, with the numbers of the newest generations.
func (w *Window) Add(fp bloomstore.Fingerprint) (layer int, added bool) { return w.add(fp, false) }

// Renew adds fp to the newest generation unless that generation claims to contain it. So fp is
// remembered for a whole span from now, even if an older generation has it. It returns what Add does.
func (w *Window) Renew(fp bloomstore.Fingerprint) (layer int, added bool) { return w.add(fp, true) }

func (w *Window) add(fp bloomstore.Fingerprint, renew bool) (layer int, added bool) {
	shard, draw := positions.Split(fp, w.choose)
	w.locks[shard].Lock()
	defer w.locks[shard].Unlock()
	chain := *w.chain.Load()
	asked := chain
	if renew {
		asked = chain[len(chain)-1:]
	}
	if claimed(asked, shard, draw) {
		return 0, false
	}
	newest := chain[len(chain)-1].Filter
	layer = newest.countKey()
	(*newest.chain.Load())[layer].set(shard, draw)
	return layer, true
}

// Restore repeats calls of Add or Renew, as Filter.Restore does. A newer generation is started, as by
// Advance. Keys of a generation that was dropped are ignored.
func (w *Window) Restore(number int64, layer int, prints []bloomstore.Fingerprint) error {
	w.start(number)
	for _, g := range *w.chain.Load() {
		if g.Number == number {
			return g.Filter.Restore(layer, prints)
		}
	}
	return nil
}

// Stats are those of the layers of all generations, which LayerStats.Generation tells apart. See Filter.Stats.
func (w *Window) Stats() (s Stats) {
	absent, variance := 0.0, 0.0 // absent is the logarithm of the probability that no generation claims an absent key
	for _, g := range *w.chain.Load() {
		of := g.Filter.Stats()
		for i := range of.Layers {
			of.Layers[i].Generation = g.Number
		}
		s.Layers = append(s.Layers, of.Layers...)
		s.Keys, s.Capacity, s.Bytes, s.Estimate = s.Keys+of.Keys, s.Capacity+of.Capacity, s.Bytes+of.Bytes, s.Estimate+of.Estimate
		absent += math.Log1p(-of.FPR)
		variance += of.StdErr * of.StdErr
	}
	s.FPR, s.StdErr = -math.Expm1(absent), math.Sqrt(variance)
	return s
}

// Bytes returns the memory of all generations.
func (w *Window) Bytes() (n uint64) {
	for _, g := range *w.chain.Load() {
		n += g.Filter.Bytes()
	}
	return n
}

// claimed reports whether a generation claims to contain the fingerprint of draw. The caller must
// hold the shard's lock, and must have loaded the chain while it held that lock.
//
// The first layers of all generations have the same size, so a key has the same positions in all
// of them. claimed first reads one bit of the key in each of these layers. The processor does
// these reads at the same time, because none of them depends on another one.
func claimed(chain []Generation, shard int, draw positions.Draws) bool {
	begun := draw
	position := begun.Next((*chain[0].Filter.chain.Load())[0].shardBits)
	word, bit := position/64, position%64
	possible := uint64(0) // bit i: the first layer of generation i may contain the key
	for i := range chain {
		possible |= (chain[i].first[shard][word] >> bit & 1) << i
	}
	for ; possible != 0; possible &= possible - 1 {
		i := bits.TrailingZeros64(possible)
		if (*chain[i].Filter.chain.Load())[0].test(shard, draw) {
			return true
		}
	}
	for _, g := range chain {
		layers := *g.Filter.chain.Load()
		if _, has := claimingLayer(layers[1:], shard, draw); has {
			return true
		}
	}
	return false
}
