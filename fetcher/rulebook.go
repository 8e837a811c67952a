package fetcher

import (
	"cmp"
	"slices"
	"sync"
)

const (
	// ruleShare is the part of Config.Memory that the rules of robots.txt files may take, beside
	// the memory of visits.
	ruleShare = 8
	// parseFactor is the memory, for each byte of a robots.txt, that parsing and its rules take.
	// A rule of 12 bytes takes 130.
	parseFactor = 12
)

// ruleBook bounds the memory for the rules of all hosts that a worker has leased. If the rules
// take more, the hosts with the most rules lose theirs, and their robots.txt is requested again
// when it is needed. So hosts pay for long files with their own turns.
type ruleBook struct {
	most int64 // 0 means no limit

	mu    sync.Mutex
	taken int64
	held  map[*holding]int64 // bytes of the rules of each host
}

func newRuleBook(memory int64) ruleBook {
	return ruleBook{most: memory / ruleShare, held: make(map[*holding]int64)}
}

// perHost is how much the rules of one host may take; 0 means no limit. The rules of the origin
// that was requested last may take more.
func (b *ruleBook) perHost() int64 { return b.most / 4 }

// set notes that the rules of a host take this many bytes. The caller must not hold the mutex
// of any host.
func (b *ruleBook) set(h *holding, bytes int64) {
	if b.most == 0 {
		return
	}
	b.mu.Lock()
	b.taken += bytes - b.held[h]
	b.held[h] = bytes
	if bytes == 0 {
		delete(b.held, h)
	}
	victims := b.victims(h)
	b.mu.Unlock()
	for _, victim := range victims {
		victim.dropRules("")
	}
}

// victims removes the hosts with the most rules, except h, until a quarter of the memory is free.
// It returns none if no more than all memory is taken. The caller must hold mu.
func (b *ruleBook) victims(h *holding) (victims []*holding) {
	if b.taken <= b.most {
		return nil
	}
	for other := range b.held {
		if other != h {
			victims = append(victims, other)
		}
	}
	slices.SortFunc(victims, func(x, y *holding) int { return cmp.Compare(b.held[y], b.held[x]) })
	for i, victim := range victims {
		if b.taken <= b.most-b.most/4 {
			return victims[:i]
		}
		b.taken -= b.held[victim]
		delete(b.held, victim)
	}
	return victims
}

// rulesBytes returns the memory of the rules of all origins, and of their tdmrep.json. The caller must hold mu.
func (h *holding) rulesBytes() (bytes int64) {
	for _, state := range h.origins {
		bytes += state.Rules().Bytes()
	}
	for _, state := range h.tdm {
		bytes += state.bytes()
	}
	return bytes
}

// dropRules forgets the rules of all origins but one, and their tdmrep.json. Each robots.txt is requested again when it
// is needed.
func (h *holding) dropRules(except string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for origin, state := range h.origins {
		if origin != except && state.Rules() != nil {
			delete(h.origins, origin)
		}
	}
	for origin := range h.tdm {
		if origin != except {
			delete(h.tdm, origin)
		}
	}
}

// noteRules counts the memory of the host's rules after those of an origin have changed. An empty
// origin means that the rules of several origins may have changed.
func (h *holding) noteRules(origin string) {
	h.mu.Lock()
	bytes := h.rulesBytes()
	h.mu.Unlock()
	if most := h.ruleBook.perHost(); most > 0 && bytes > most {
		h.dropRules(origin)
		h.mu.Lock()
		bytes = h.rulesBytes()
		h.mu.Unlock()
	}
	h.ruleBook.set(h, bytes)
}
