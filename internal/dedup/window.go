package dedup

import (
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/sizing"
)

// MinWindowFPR is the lowest Settings.FPR with a window.
const MinWindowFPR = membits.MinWindowFPR

// exactGenerations is the number of generations of an exact window. With 6, a key is remembered
// for at most 7/6 of the window.
const exactGenerations = 6

// WithGenerations returns s with the number of generations of its window, if it has a window.
func (s Settings) WithGenerations() Settings {
	switch {
	case s.Window == 0:
		s.Generations = 0
	case s.Exact:
		s.Generations = exactGenerations
	default:
		s.Generations = sizing.RecommendedGenerations(s.FPR)
	}
	return s
}

// windowConfig returns the config of a window with a filter.
func (s Settings) windowConfig() membits.WindowConfig {
	return membits.WindowConfig{Span: time.Duration(s.Window), Generations: s.Generations, Capacity: s.URLs, FPR: s.FPR}
}

// window is a set that forgets fingerprints some time after they were added: see sizing.Window.
type window struct {
	settings    Settings
	generations []generation    // oldest first; fingerprints are added to the last
	filters     *membits.Window // has the same generations; nil with Settings.Exact
}

// generation is one generation of a window.
type generation struct {
	number int64 // see membits.Generation
	set    seen
}

// newWindow returns a window with the given generations, at least one, oldest first.
func newWindow(settings Settings, generations []generation) (*window, error) {
	w := &window{settings: settings, generations: generations}
	if settings.Exact {
		return w, nil
	}
	var filters []membits.Generation
	for _, g := range generations {
		filters = append(filters, membits.Generation{Number: g.number, Filter: g.set.(*filterSet).Filter})
	}
	var err error
	w.filters, err = membits.RestoreWindow(settings.windowConfig(), filters)
	return w, err
}

// number returns the number of the generation at a time.
func (s Settings) number(now time.Time) int64 {
	return now.UnixNano() / int64(time.Duration(s.Window)/time.Duration(s.Generations))
}

// advance starts a generation if a new one has begun, and drops those that have ended. It reports
// whether one was started.
func (w *window) advance(now time.Time) (started bool) {
	number := w.settings.number(now)
	if number <= w.generations[len(w.generations)-1].number {
		return false // also if the clock was set back
	}
	kept := w.generations[:0:0]
	for _, g := range w.generations {
		if g.number >= number-int64(w.settings.Generations) {
			kept = append(kept, g)
		}
	}
	var set seen = new(exactSet)
	if w.filters != nil {
		w.filters.Advance(now)
		all := w.filters.Generations()
		set = newFilterSet(all[len(all)-1].Filter)
	}
	w.generations = append(kept, generation{number, set})
	return true
}

func (w *window) add(fp bloomstore.Fingerprint) bool {
	if w.filters != nil {
		_, added := w.filters.Add(fp)
		return added
	}
	newest := len(w.generations) - 1
	for _, g := range w.generations[:newest] {
		if g.set.(*exactSet).has(fp) {
			return false
		}
	}
	return w.generations[newest].set.add(fp)
}

func (w *window) keys() (n uint64) {
	for _, g := range w.generations {
		n += g.set.keys()
	}
	return n
}

func (w *window) bytes() (n uint64) {
	for _, g := range w.generations {
		n += g.set.bytes()
	}
	return n
}
