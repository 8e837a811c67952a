package bloomtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
)

// modelRun compares random operations with a map.
func modelRun(ctx context.Context, t *trial) error {
	return newModel(t, t.open()).run(ctx)
}

// errInjected is the error of the faults in modelRunWithFaults.
var errInjected = errors.New("bloomtest: injected")

// modelRunWithFaults is modelRun with a Faulty filter: one call in four fails, and some
// of the failing calls record a part of the batch.
func modelRunWithFaults(ctx context.Context, t *trial) error {
	faulty := Faulty(t.open(), func(int) Fault {
		if t.rng.IntN(4) > 0 {
			return Fault{}
		}
		return Fault{Err: errInjected, Recorded: t.rng.IntN(200)}
	})
	return newModel(t, faulty).run(ctx)
}

// model records what the answers of a filter imply about its content.
type model struct {
	*trial
	filter  bloomstore.Filter
	offered []bloomstore.Fingerprint // every key that was ever part of a call
	state   map[bloomstore.Fingerprint]certainty
	lookups int // number of look-ups of keys that were certainly not added
	falsely int // how often the filter claimed one of these keys
}

// certainty says whether a key is in the filter: absent if no call has named it,
// perhaps if a call that named it failed, certain if the filter must claim it.
type certainty uint8

const (
	absent certainty = iota
	perhaps
	certain
)

func newModel(t *trial, filter bloomstore.Filter) *model {
	return &model{trial: t, filter: filter, state: make(map[bloomstore.Fingerprint]certainty)}
}

func (m *model) run(ctx context.Context) error {
	batches := 400
	if m.proof {
		batches = 8000
	}
	for step := range batches {
		do, name := m.add, "add"
		if m.rng.IntN(2) == 0 {
			do, name = m.contains, "contains"
		}
		if err := do(ctx, m.batch()); err != nil {
			return fmt.Errorf("step %d, %s: %w", step, name, err)
		}
	}
	if err := checkFalse("claims", m.falsely, m.lookups); err != nil {
		return err
	}
	return m.allKnown(ctx)
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

func (m *model) add(ctx context.Context, batch []bloomstore.Fingerprint) error {
	added, err := add(ctx, m.filter, batch)
	if errors.Is(err, errInjected) {
		for _, fp := range batch {
			m.state[fp] = max(m.state[fp], perhaps)
		}
		return nil
	} else if err != nil {
		return err
	}
	for i, fp := range batch {
		if m.state[fp] == certain && added[i] {
			return fmt.Errorf("key %x is new a second time, at %d of %d", fp, i, len(batch))
		}
		m.note(fp, !added[i])
		m.state[fp] = certain // after either answer the filter must claim fp
	}
	return nil
}

func (m *model) contains(ctx context.Context, batch []bloomstore.Fingerprint) error {
	known, err := contains(ctx, m.filter, batch)
	if errors.Is(err, errInjected) {
		return nil
	} else if err != nil {
		return err
	}
	for i, fp := range batch {
		if m.state[fp] == certain && !known[i] {
			return fmt.Errorf("key %x was added and is denied, at %d of %d", fp, i, len(batch))
		}
		m.note(fp, known[i])
		if known[i] {
			m.state[fp] = certain // bits are never cleared
		}
	}
	return nil
}

// note counts an answer about a key that was never added.
func (m *model) note(fp bloomstore.Fingerprint, claimed bool) {
	if m.state[fp] != absent {
		return
	}
	m.lookups++
	if claimed {
		m.falsely++
	}
}

// allKnown checks, without faults, that the filter claims every certain key.
func (m *model) allKnown(ctx context.Context) error {
	filter := m.filter
	if faulty, is := filter.(*faulty); is {
		filter = faulty.Filter
	}
	var all []bloomstore.Fingerprint
	for _, fp := range m.offered {
		if m.state[fp] == certain {
			all = append(all, fp)
		}
	}
	return wantKnown(ctx, filter, all)
}
