package testweb

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Refused returns the number of links that a correct crawl refuses, by reason. It
// counts each distinct link of each page once, and visits all pages for this.
func (w *Web) Refused() map[string]uint64 {
	all := map[string]uint64{}
	for t := range w.each {
		switch {
		case t.kind == aResource:
			for reason, n := range t.resource.refused {
				all[reason] += n
			}
		case t.kind == aPage && w.has(Spellings) && w.fateOf(t.page).hasLinks():
			all["scheme"] += noLinksSchemes
			all["malformed"] += noLinksMalformed
		}
	}
	return all
}

// CompareRefused returns nil if a crawl refused as many links for each reason as a
// correct crawl, or an error that names every difference. For the reason too_many the
// number can be larger, because crawlers can read different amounts of an endless
// sitemap.
func (w *Web) CompareRefused(refused map[string]uint64) error {
	want := w.Refused()
	reasons := slices.Concat(slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(refused)))
	slices.Sort(reasons)
	var faults []error
	for _, reason := range slices.Compact(reasons) {
		endless := reason == "too_many" && want[reason] > 0
		if refused[reason] < want[reason] || refused[reason] > want[reason] && !endless {
			faults = append(faults, fmt.Errorf("%d links refused as %s, want %d", refused[reason], reason, want[reason]))
		}
	}
	return errors.Join(faults...)
}
