package localstore

import (
	"context"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// maxMarked bounds the fingerprints that one group marks as seen.
const maxMarked = 10_000

// MarkSeen marks URLs as seen without queueing them: from now on they are answered Seen,
// exact ones too. It returns how many were new to the crawl. The URLs count neither as
// found nor as added. A URL that waits or has an outcome stays unchanged. MarkSeen keeps
// no reference to prints, which must come from Hasher.
//
// It takes effect in steps of some thousand prints. After an error the earlier ones are
// marked. Marking a URL twice has no further effect.
func (s *Store) MarkSeen(ctx context.Context, prints []bloomstore.Fingerprint) (fresh int, err error) {
	for len(prints) > 0 && err == nil {
		some := prints[:min(len(prints), maxMarked)]
		prints = prints[len(some):]
		n := 0
		err = s.do(ctx, &op{change: func(g *group) error {
			for _, print := range some {
				added, err := g.markSeen(print)
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

// markSeen marks one URL as seen, and reports whether it was new to the filter. Rebuild
// and contains read its row. Its errors are fatal.
func (g *group) markSeen(print bloomstore.Fingerprint) (added bool, err error) {
	layer, added := g.filter.Add(print)
	if added {
		g.journal = append(append(g.journal, byte(layer)), print[:]...)
		g.journaled++
		g.meta.Known++
	} else if row, err := g.get(knownKey(print)); err != nil || row != nil {
		return false, err
	}
	g.set(knownKey(print), nil)
	if !added { // its row cannot be read yet, and the group's journal does not have it
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
