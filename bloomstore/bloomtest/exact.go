package bloomtest

import (
	"context"
	"sync"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// Exact returns a filter that never errs: a map behind a lock.
func Exact() Deleter {
	return &exact{known: make(map[bloomstore.Fingerprint]struct{})}
}

type exact struct {
	mu    sync.Mutex
	known map[bloomstore.Fingerprint]struct{}
}

func (e *exact) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	added := make([]bool, len(prints))
	for i, fp := range prints {
		if _, known := e.known[fp]; !known {
			e.known[fp], added[i] = struct{}{}, true
		}
	}
	return added, nil
}

func (e *exact) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	known := make([]bool, len(prints))
	for i, fp := range prints {
		_, known[i] = e.known[fp]
	}
	return known, nil
}

func (e *exact) Delete(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	deleted := make([]bool, len(prints))
	for i, fp := range prints {
		_, deleted[i] = e.known[fp]
		delete(e.known, fp)
	}
	return deleted, nil
}
