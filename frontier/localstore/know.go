package localstore

import (
	"context"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// maxKnow bounds the fingerprints that one group marks as known.
const maxKnow = 10_000

// Know marks URLs as known without queueing them: from now on they are answered
// Seen, exact ones too. It returns how many were new to the crawl. The URLs
// count neither as found nor as added; one that waits or has an outcome stays
// what it is. Know keeps no reference to prints, which come from Hasher.
//
// It takes effect in steps of some thousand prints: an error leaves those before
// it known, and to know them again does nothing.
func (s *Store) Know(ctx context.Context, prints []bloomstore.Fingerprint) (fresh int, err error) {
	for len(prints) > 0 && err == nil {
		some := prints[:min(len(prints), maxKnow)]
		prints = prints[len(some):]
		n := 0
		err = s.do(ctx, &op{change: func(g *group) error {
			for _, print := range some {
				added, err := g.know(print)
				if err != nil {
					return err
				}
				if added {
					n++
				}
			}
			return nil
		}})
		if err == nil {
			fresh += n
		}
	}
	return fresh, err
}

// know marks one URL as known, and reports whether the filter did not claim it.
// Its row is what Rebuild and the appeal of exact keys go by. Its errors are
// fatal.
func (g *group) know(print bloomstore.Fingerprint) (added bool, err error) {
	layer, added := g.filter.Add(print)
	if added {
		g.journal = append(append(g.journal, byte(layer)), print[:]...)
		g.journaled++
		g.meta.Known++
	} else if row, err := g.get(knownKey(print)); err != nil || row != nil {
		return false, err
	}
	g.set(knownKey(print), nil)
	if !added { // its row cannot be read yet, and the group's journal lacks it
		g.markExact(print)
	}
	if print.Sampled() {
		g.set(shadowKey(print), nil)
		if g.sampled == nil {
			g.sampled = make(map[bloomstore.Fingerprint]bool)
		}
		g.sampled[print] = true
	}
	return added, nil
}
