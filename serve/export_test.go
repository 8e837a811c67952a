package serve

import (
	"testing"
)

// TakeLease begins a new term of the lease of a Redis.
func TakeLease(t *testing.T, cfg Config) {
	cfg, err := cfg.check()
	if err != nil {
		t.Fatal(err)
	}
	holder, err := (root{cfg.Root}).holder()
	if err != nil {
		t.Fatal(err)
	}
	l, err := openShared(t.Context(), &cfg, holder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.close() })
}

// ProblemKinds returns the kinds of problems with their statuses.
func ProblemKinds() map[string]int {
	all := make(map[string]int)
	for name, kind := range kinds {
		all[name] = kind.status
	}
	return all
}
