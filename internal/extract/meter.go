package extract

// These are the bytes of memory that links take beside their texts, with the unused parts of
// slices and maps that grow by doubling.
const (
	referenceBytes = 128 // a reference, its entry in the index of the collector, and its LinkText
	linkBytes      = 576 // a Link, its entry in an index, and what package fetcher and a store make of it
)

const (
	// PieceBytes is the memory that links may take before Options.OnPiece gets them.
	PieceBytes = 8 << 20
	// leastHeld and mostHeld bound how much more memory is reserved at once. The first is
	// enough for the links of most pages.
	leastHeld, mostHeld = 64 << 10, 1 << 20
)

// meter counts the memory of links, and reserves it before it is used. The zero meter counts
// and reserves nothing.
type meter struct {
	hold       func(more int64) bool // nil means that nothing is reserved
	used, held int64                 // bytes; used is at most held
}

// use reserves n more bytes. It returns false if that is not possible.
func (m *meter) use(n int64) bool {
	if m.hold == nil || m.used+n <= m.held {
		m.used += n
		return true
	}
	more := max(n, min(max(m.held, leastHeld), mostHeld))
	if !m.hold(more) {
		return false
	}
	m.held += more
	m.used += n
	return true
}

// free ends the use of n bytes. If much memory is unused then, it gives it back.
func (m *meter) free(n int64) {
	if m.used -= n; m.hold != nil && m.held-m.used > mostHeld {
		m.hold(m.used - m.held)
		m.held = m.used
	}
}

// release ends the use of all memory, and gives it back.
func (m *meter) release() {
	if m.hold != nil {
		m.hold(-m.held)
	}
	m.used, m.held = 0, 0
}
