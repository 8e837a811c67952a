package bloomtest

import (
	"maps"
	"slices"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
)

// modelRun makes random calls and compares the answers with a map.
func modelRun(t *trial) {
	m := &model{trial: t, known: make(map[bloomstore.Fingerprint]bool)}
	batches := 400
	if m.proof {
		batches = 8000
	}
	for range batches {
		batch := m.batch()
		if m.rng.IntN(2) == 0 {
			m.lookUp(batch)
		} else {
			m.offer(batch)
		}
	}
	m.wantFew("claims", m.falsely, m.lookups)
	m.wantKnown(slices.Collect(maps.Keys(m.known)))
}

// model records what the answers of a filter imply about its content.
type model struct {
	*trial
	offered []bloomstore.Fingerprint        // every key that was ever part of a call
	known   map[bloomstore.Fingerprint]bool // keys that the filter must claim
	lookups int                             // number of look-ups of keys that were not added
	falsely int                             // how often the filter claimed one of these keys
}

// batch returns up to 200 keys: new ones, some that were offered before, and some
// twice.
func (m *model) batch() []bloomstore.Fingerprint {
	batch := make([]bloomstore.Fingerprint, m.rng.IntN(201))
	bloomrate.Random(m.rng, batch)
	for i := range batch {
		switch m.rng.IntN(4) {
		case 0:
			batch[i] = batch[m.rng.IntN(i+1)]
		case 1:
			if len(m.offered) > 0 {
				batch[i] = m.offered[m.rng.IntN(len(m.offered))]
			}
		}
	}
	m.offered = append(m.offered, batch...)
	return batch
}

func (m *model) offer(batch []bloomstore.Fingerprint) {
	added := m.add(batch)
	for i, fp := range batch {
		m.Require(!m.known[fp] || !added[i], "AddIfAbsent says that key %x (%d of %d) is new, although it was added before", fp, i, len(batch))
		m.note(fp, !added[i])
		m.known[fp] = true // after either answer the filter must claim fp
	}
}

func (m *model) lookUp(batch []bloomstore.Fingerprint) {
	claimed := m.contains(batch)
	for i, fp := range batch {
		m.Require(!m.known[fp] || claimed[i], "Contains of key %x (%d of %d), which was added: false", fp, i, len(batch))
		m.note(fp, claimed[i])
		if claimed[i] {
			m.known[fp] = true // bits are never cleared
		}
	}
}

// note counts an answer about a key that was never added.
func (m *model) note(fp bloomstore.Fingerprint, claimed bool) {
	if m.known[fp] {
		return
	}
	m.lookups++
	if claimed {
		m.falsely++
	}
}
