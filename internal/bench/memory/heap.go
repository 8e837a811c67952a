package memory

import (
	"cmp"
	"context"
	"fmt"
	"runtime"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/sizing"
)

// InHeap returns the subjects in the memory of a Go program: our filter at each of the
// rates, and maps.
func InHeap(rates []float64) (all []Subject) {
	for _, p := range rates {
		all = append(all, Subject{
			Name: fmt.Sprintf("membits, p = %g", p), Ours: true, FPR: p,
			By: "heap",
			Weigh: weighHeap(func(links sets.Range) (any, error) {
				filter, err := membits.New(membits.Config{Capacity: links.N, FPR: p})
				for i := 0; err == nil && i < links.Len(); i++ {
					filter.Add(links.Print(i))
				}
				return filter, err
			}),
			Predict: exactly(func(n uint64) uint64 {
				return sizing.SizeMemory(sizing.Chain{Keys: n, FPR: p, Growth: true}, sizing.DefaultShards).Allocated
			}),
		})
	}
	return append(all,
		goMap("Go map of URLs", func(links sets.Range, i int) string { return links.Offer(i).URL }),
		goMap("Go map of 16-byte fingerprints", func(links sets.Range, i int) bloomstore.Fingerprint { return links.Print(i) }))
}

// goMap returns the subject for a map of keys.
func goMap[K comparable](name string, key func(links sets.Range, i int) K) Subject {
	return Subject{Name: name, Most: maxItems, Predict: exactStore(name), By: "heap",
		Weigh: weighHeap(func(links sets.Range) (any, error) {
			known := make(map[K]struct{})
			for i := range links.Len() {
				known[key(links, i)] = struct{}{}
			}
			return known, nil
		})}
}

// exactStore returns the prediction that sizing.ExactStores makes for the store with
// that name.
func exactStore(name string) func(n uint64) (least, most uint64) {
	return exactly(func(n uint64) uint64 {
		for _, store := range sizing.ExactStores(n, sets.URLBytes) {
			if store.Name == name {
				return uint64(store.BytesPerKey * float64(n))
			}
		}
		panic("memory: sizing knows no " + name)
	})
}

// weighHeap returns a weigh function that measures the memory of the results of build. The
// function calls build so often that other allocations of the program do not matter.
func weighHeap(build func(links sets.Range) (any, error)) weigh {
	const enough = 16 << 20 // bytes
	return func(ctx context.Context, n uint64) (float64, error) {
		links := urls(n, urlHosts)
		before, after := heap(), 0.0
		var copies []any
		for after-before < enough {
			kept, err := build(links)
			if err = cmp.Or(ctx.Err(), err); err != nil {
				return 0, err
			}
			copies, after = append(copies, kept), heap()
			links.First += n
		}
		runtime.KeepAlive(copies)
		return (after - before) / float64(len(copies)), nil
	}
}

// heap returns the bytes of live objects.
func heap() float64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}
