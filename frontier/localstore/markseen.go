package localstore

import (
	"context"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// maxMarked bounds the fingerprints that one group marks as seen.
const maxMarked = 10_000

// MarkSeen marks URLs as seen without queueing them. After that, an offer of such a URL
// is answered Seen, even if it is exact. MarkSeen returns how many were new to the
// filter. The URLs count neither as found nor as added. A URL that waits or has an
// outcome stays unchanged. prints must come from Hasher. MarkSeen keeps no reference to
// them.
//
// MarkSeen takes effect in steps of some thousand fingerprints. After an error, the URLs
// of earlier steps are marked already. Marking a URL twice has no further effect.
func (s *Store) MarkSeen(ctx context.Context, prints []bloomstore.Fingerprint) (fresh int, err error) {
	for len(prints) > 0 && err == nil {
		some := prints[:min(len(prints), maxMarked)]
		prints = prints[len(some):]
		n := 0
		err = s.submit(ctx, &op{change: func(g *group) error {
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

// markSeen marks one URL as seen, and reports whether it was new to the filter. It writes
// a row of tableKnown. The methods contains and rebuildFilter read this table. The errors of
// markSeen are fatal.
func (g *group) markSeen(print bloomstore.Fingerprint) (added bool, err error) {
	if added = g.remember(print); added {
		g.meta.Known++
	} else if has, err := g.hasRow(exactKey(print), knownKey(print)); err != nil || has {
		return false, err
	}
	g.set(knownKey(print), nil)
	if !added { // the group cannot read the row yet, and its journal does not have the URL
		g.exact[print] = true
	}
	if print.Sampled() {
		g.sample(print)
	}
	return added, nil
}
