package localstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/sizing"
)

// If bulk keys have a window, the filter is a membits.Window. The committer rotates it at the start of a group:
//
//	the newest generation takes additions   -> the keys of all items that wait or have failed are carried over into it,
//	                                           some thousand in each group -> they outlive the older generations
//	the generation of a window ago is asked -> dropped in the step that starts the next generation
//
// The items are read from a snapshot of the rows. It includes each item that was added before the newest generation was
// started and has not been finished since, however it moves meanwhile. The key of an item that is finished before the end of
// this work is carried over in that step. So an item that waits is always claimed, and the newest generation that has a
// finished key is the one in which it was finished. If the next generation must start before the end, because the process
// did not run or was slow, all keys are carried over before the group answers anything.
//
// The rows of finished items stay, so that a key that the filter has forgotten is queued in the round after its last one.

// filter is a *membits.Filter or a *membits.Window.
type filter interface {
	Has(bloomstore.Fingerprint) bool
	Claims(bloomstore.Fingerprint) []bool
	Add(bloomstore.Fingerprint) (layer int, added bool)
	Stats() membits.Stats
	Bytes() uint64
}

// windowState is the stored state of the window of bulk keys.
type windowState struct {
	Newest  int64            `json:"newest"`          // number of the newest generation
	Carried int64            `json:"carried"`         // the newest generation that has got the keys of all items that waited
	Forgot  bool             `json:"forgot"`          // keys may have been dropped
	Files   []generationFile `json:"files,omitempty"` // of the checkpoint

	// The audit needs to know of the generations that were dropped: how many keys they were estimated to have, and the
	// variance. Repeated counts keys that were added to a generation although another one had got them before.
	Dropped  float64 `json:"dropped,omitempty"`
	Variance float64 `json:"variance,omitempty"`
	Repeated uint64  `json:"repeated,omitempty"`

	// Lost is the expected number of new keys that were taken for known ones before the newest generation was started.
	// Untested is what Repeated+Known was then.
	Lost     float64 `json:"lost,omitempty"`
	Untested uint64  `json:"untested,omitempty"`
}

// generationFile is the file of a generation in a checkpoint.
type generationFile struct {
	Number int64  `json:"number"`
	File   string `json:"file"`
	Closed bool   `json:"closed,omitempty"` // the generation got no keys any more
}

// windowConfig returns the config of the window of bulk keys. Its Span is 0 if they have none.
func (c *Config) windowConfig() (config membits.WindowConfig, err error) {
	if span := c.Windows[frontier.Bulk]; span > 0 {
		config, err = membits.WindowConfig{Span: span, Generations: c.Generations,
			Capacity: c.Filter.Capacity, FPR: c.Filter.FPR, Shards: c.Filter.Shards}.Complete()
		if c.Filter.Growth == membits.GrowthOff {
			err = errors.Join(err, errors.New("its generations grow, so Filter.Growth must be on"))
		}
	}
	if err != nil {
		err = fmt.Errorf("localstore: the window of bulk items: %w", err)
	}
	return config, err
}

// newFilter makes an empty filter.
func (s *Store) newFilter() (err error) {
	config, err := s.cfg.windowConfig()
	if err != nil {
		return err
	}
	if config.Span == 0 {
		s.filter, err = membits.New(s.cfg.Filter)
		return err
	}
	window, err := membits.NewWindow(config, s.storedTime())
	if err == nil {
		s.useWindow(window)
	}
	return err
}

// storedTime returns the time of Open, or the last time that the previous process stored, if that is later.
func (s *Store) storedTime() time.Time {
	return time.UnixMicro(max(s.cfg.Now().UnixMicro(), s.meta.Clock))
}

func (s *Store) useWindow(window *membits.Window) {
	s.filter, s.window = window, window
	s.cfg.Generations = window.Config().Generations
	if state := &s.meta.Window; state.Newest == 0 {
		state.Newest = s.newest()
		state.Carried = state.Newest
	}
}

// newest returns the number of the newest generation, and oldest that of the oldest one that is asked.
func (s *Store) newest() int64 {
	all := s.window.Generations()
	return all[len(all)-1].Number
}

func (s *Store) oldest() int64 { return s.window.Generations()[0].Number }

// carry is the carrying over of keys into the newest generation, in progress. After a crash it begins again.
type carry struct {
	rows *pebble.Snapshot
	next []byte // key of the row to continue with
}

func (c *carry) close() {
	if c != nil {
		_ = c.rows.Close()
	}
}

// maxCarried bounds the keys that one group carries over, and those of one row of the journal.
const maxCarried = 4096

// rotate starts a generation when its time has come, drops the oldest one, and carries keys over. It must be the first
// step of a group. Its errors are fatal.
func (g *group) rotate() error {
	if g.window == nil {
		return nil
	}
	state, now := &g.meta.Window, time.UnixMicro(g.now)
	number := g.window.Config().Number(now)
	behind := false
	if number > state.Newest {
		behind = state.Carried < state.Newest || number-int64(g.cfg.Generations) > state.Newest
		g.closeGenerations(number)
		g.window.Advance(now)
		state.Newest, g.changed = number, true
		g.carry.close()
		g.carry = nil
		crash.Point("rotated")
	}
	if state.Carried == state.Newest {
		return nil
	}
	if g.carry == nil {
		g.carry = &carry{rows: g.db.NewSnapshot()}
	}
	for more := true; more; {
		var err error
		if more, err = g.carryOver(); err != nil || !behind {
			return err
		}
		g.writeJournal()
		g.journal = nil
		if err := g.apply("carry", false); err != nil {
			return err
		}
	}
	return nil
}

// closeGenerations prepares the start of the generation with this number: it adds what is known of the newest
// generation, and of those that will be dropped, to the state.
func (g *group) closeGenerations(number int64) {
	state := &g.meta.Window
	state.Lost += expectedLost(g.window.Stats(), &g.meta)
	state.Untested = state.Repeated + g.meta.Known
	for _, old := range g.window.Generations() {
		if old.Number >= number-int64(g.cfg.Generations) {
			continue
		}
		stats := old.Filter.Stats()
		keys, variance := estimateAdded(stats)
		if math.IsInf(keys, 0) {
			keys, variance = float64(stats.Keys), 0
		}
		state.Dropped, state.Variance, state.Forgot = state.Dropped+keys, state.Variance+variance, true
	}
}

// expectedLost estimates how many new keys were taken for known ones since the newest generation of a window was started.
// The older generations claimed each of them with the same probability, and the newest one with a probability that rose.
func expectedLost(stats membits.Stats, meta *meta) (lost float64) {
	absent, keys := 0.0, uint64(0)
	for _, l := range stats.Layers {
		if l.Generation != meta.Window.Newest {
			absent += math.Log1p(-l.FPR)
			continue
		}
		keys += l.Keys
		lost += l.Estimate * sizing.LostWhileFilling(uint64(math.Round(l.Estimate)), l.Bits, l.Hashes)
	}
	tested := keys - min(keys, meta.Window.Repeated+meta.Known-meta.Window.Untested)
	return lost + math.Expm1(-absent)*float64(tested)
}

// lostInWindow returns the expected number of new keys that were taken for known ones so far.
func (s *Store) lostInWindow(ctx context.Context) (lost float64, err error) {
	err = s.ask(ctx, func(g *group) { lost = g.meta.Window.Lost + expectedLost(g.window.Stats(), &g.meta) })
	return lost, err
}

// carryOver adds the next keys to the newest generation. more reports whether keys are left.
func (g *group) carryOver() (more bool, err error) {
	seen, tables := 0, []byte{tableFailed, tableQueue, tableDelayed} // in the order of their letters
	for _, letter := range tables {
		lower, upper := table(letter)
		if bytes.Compare(g.carry.next, upper) >= 0 {
			continue
		}
		if bytes.Compare(g.carry.next, lower) > 0 {
			lower = g.carry.next
		}
		rows, err := newIter(g.carry.rows, lower, upper)
		if err != nil {
			return false, err
		}
		for ok := rows.First(); ok; ok = rows.Next() {
			if seen++; seen > maxCarried {
				g.carry.next = bytes.Clone(rows.Key())
				return true, rows.Close()
			}
			print, err := g.waitingPrint(rows.Key(), rows.Value())
			if err != nil {
				_ = rows.Close()
				return false, err
			}
			g.carryKey(print)
		}
		if err := rows.Close(); err != nil {
			return false, fatal("read", err)
		}
	}
	g.carry.close()
	g.carry = nil
	g.meta.Window.Carried, g.changed = g.meta.Window.Newest, true
	crash.Point("carried")
	return false, nil
}

// waitingPrint returns the key of the item in a row of one of the three tables of carryOver.
func (s *Store) waitingPrint(key, value []byte) (bloomstore.Fingerprint, error) {
	var item frontier.Item
	var err error
	switch key[0] {
	case tableFailed:
		item, err = decodeFailed(value, string(hostOfFailed(key)), s.hasher)
	case tableDelayed:
		_, item, err = s.decodeDelayed(key, value)
	default:
		host, _, ok := splitQueueKey(key)
		if !ok {
			return bloomstore.Fingerprint{}, fatal("read a queue", errRow)
		}
		item, err = decodeEntry(value, string(host), s.hasher)
	}
	if err != nil && !isFatal(err) {
		err = fatal("read an item", err)
	}
	return item.Fingerprint, err
}

func (g *group) carryKey(print bloomstore.Fingerprint) {
	layer, added := g.window.Renew(print)
	if !added {
		return
	}
	g.journalKey(layer, print)
	g.meta.Window.Repeated++
	g.changed = true
	if print.Sampled() {
		g.sample(print)
	}
}

// addForgotten decides about an offer whose key the window does not claim, if the key has rows. Such an item is finished:
// otherwise the window would claim it. A bulk item is queued in the round after its last one. The errors are fatal.
func (g *group) addForgotten(o *offer) (v frontier.Verdict, decided bool, err error) {
	seen := func() (frontier.Verdict, bool, error) {
		g.meta.Stats.Seen++
		return frontier.Verdict{Answer: frontier.Seen}, true, nil
	}
	if known, err := g.hasRow(knownKey(o.print)); err != nil {
		return v, false, err
	} else if known {
		return seen()
	}
	row, err := g.get(outcomeKey(o.print))
	if err != nil || row == nil {
		return v, false, err
	}
	last, err := decodeOutcome(row)
	if err != nil {
		return v, false, err
	}
	key, wasBulk, err := g.exactRow(o)
	if err != nil {
		return v, false, err
	}
	if o.Class != frontier.Bulk || !wasBulk { // rows decide
		if renewed, err := g.renew(o); err != nil {
			return v, false, err
		} else if !renewed {
			return seen()
		}
	} else if err := g.renewRow(o, key, false, last); err != nil {
		return v, false, err
	} else if o.print.Sampled() {
		g.sample(o.print)
	}
	return frontier.Verdict{Answer: frontier.Added}, true, nil
}

// sampleValue returns the value of a row of the shadow sample: the number of the generation that has the key.
func (g *group) sampleValue(print bloomstore.Fingerprint) []byte {
	if g.window == nil {
		return nil
	}
	number, claimed := g.window.Claimer(print)
	if !claimed { // it will be added
		number = g.meta.Window.Newest
	}
	return binary.AppendUvarint(nil, uint64(number))
}

// inSample reports whether the filter must claim a key that has this row in the shadow sample.
func (s *Store) inSample(row []byte) bool {
	if row == nil || s.window == nil {
		return row != nil
	}
	number, n := binary.Uvarint(row)
	return n > 0 && int64(number) >= s.oldest()
}

// openWindow reads the generations of the checkpoint.
func (s *Store) openWindow() error {
	config, err := s.cfg.windowConfig()
	if err != nil {
		return err
	}
	state := &s.meta.Window
	var all []membits.Generation
	for _, file := range state.Files {
		if file.Number < state.Newest-int64(config.Generations) {
			continue
		}
		filter, err := s.readCheckpoint(file.File, config.Generation())
		if err != nil {
			return err
		}
		all = append(all, membits.Generation{Number: file.Number, Filter: filter})
	}
	if len(all) == 0 {
		filter, err := membits.New(config.Generation())
		if err != nil {
			return err
		}
		all = []membits.Generation{{Number: state.Newest - int64(config.Generations) - 1, Filter: filter}}
	}
	window, err := membits.RestoreWindow(config, all)
	if err == nil {
		s.useWindow(window)
	}
	return err
}

// rebuildWindow rebuilds the window from the rows: each key gets into the generation that has it already (see above).
func (s *Store) rebuildWindow() error {
	config, err := s.cfg.windowConfig()
	if err != nil {
		return err
	}
	state, newest := &s.meta.Window, config.Number(s.storedTime())
	first, err := membits.New(config.Generation())
	if err != nil {
		return err
	}
	filters := map[int64]*membits.Filter{newest: first}
	*state = windowState{Newest: newest, Carried: newest, Lost: state.Lost}
	add := func(print bloomstore.Fingerprint, number int64) (added bool, err error) {
		if number < newest-int64(config.Generations) {
			return false, nil
		}
		number = min(number, newest)
		if filters[number] == nil {
			if filters[number], err = membits.New(config.Generation()); err != nil {
				return false, err
			}
		}
		_, added = filters[number].Add(print)
		return added, nil
	}
	err = s.eachKey(func(print bloomstore.Fingerprint, table byte, row []byte) error {
		number := newest
		switch table {
		case tableOutcome:
			last, err := decodeOutcome(row)
			if err != nil {
				return err
			}
			if last.seq == 0 { // a failed item stays in the newest generation
				number = config.Number(time.UnixMicro(last.finished))
			}
			if number < newest-int64(config.Generations) {
				state.Dropped, state.Forgot = state.Dropped+1, true
			}
		case tableExact: // it waits or has an outcome
			return nil
		case tableShadow:
			stored, _ := binary.Uvarint(row)
			number = int64(stored)
		}
		added, err := add(print, number)
		if added && table == tableShadow {
			s.meta.Swept.Left++
		}
		return err
	})
	if err != nil {
		return err
	}
	state.Untested = s.meta.Known
	var all []membits.Generation
	for number, filter := range filters {
		all = append(all, membits.Generation{Number: number, Filter: filter})
	}
	window, err := membits.RestoreWindow(config, all)
	if err == nil {
		s.useWindow(window)
	}
	return err
}
