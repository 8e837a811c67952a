package bloomtest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
)

// Bench measures how fast new keys are added, and how fast known and unknown keys are
// looked up in a filter with Keys keys. Each measurement is made with one caller and with 16
// callers. Each call of open must return a new, empty filter that is sized for Keys keys.
func Bench(b *testing.B, open func(b *testing.B) bloomstore.Filter) {
	const batch = 100
	rng := rand.New(rand.NewPCG(1, 0))
	known := bloomrate.Random(rng, make([]bloomstore.Fingerprint, Keys))
	unknown := bloomrate.Random(rng, make([]bloomstore.Fingerprint, Keys))
	full := sync.OnceValue(func() bloomstore.Filter {
		filter := open(b)
		if _, err := filter.AddIfAbsent(b.Context(), known); err != nil {
			b.Fatal(err)
		}
		return filter
	})
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("op=add/batch=%d/callers=%d", batch, callers), func(b *testing.B) {
			filter := open(b)
			spread(b, callers, batch, known, func(prints []bloomstore.Fingerprint) error {
				_, err := filter.AddIfAbsent(b.Context(), prints)
				return err
			}, func() { filter = open(b) })
		})
		for _, keys := range []struct {
			name   string
			prints []bloomstore.Fingerprint
		}{{"known", known}, {"unknown", unknown}} {
			b.Run(fmt.Sprintf("op=contains/keys=%s/batch=%d/callers=%d", keys.name, batch, callers), func(b *testing.B) {
				filter := full()
				spread(b, callers, batch, keys.prints, func(prints []bloomstore.Fingerprint) error {
					_, err := filter.Contains(b.Context(), prints)
					return err
				}, func() {})
			})
		}
	}
}

// spread calls run b.N times from several goroutines, each time with the next batch of
// prints. After the last batch of prints it waits for the goroutines, calls reset
// without timing it, and starts over with the first batch.
func spread(b *testing.B, callers, batch int, prints []bloomstore.Fingerprint,
	run func([]bloomstore.Fingerprint) error, reset func()) {
	perRound := len(prints) / batch
	b.ResetTimer()
	for done := 0; done < b.N; done += perRound {
		if done > 0 {
			b.StopTimer()
			reset()
			b.StartTimer()
		}
		var next atomic.Int64
		var wg sync.WaitGroup
		calls := min(perRound, b.N-done)
		for range callers {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < calls; i = int(next.Add(1)) - 1 {
					if err := run(prints[i*batch : (i+1)*batch]); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(b.N)*float64(batch)/b.Elapsed().Seconds(), "keys/s")
}
