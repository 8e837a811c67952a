package memory

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
	"github.com/bloomfrontier/crawler/sizing"
)

// OnDisk returns the embedded store, in folders below dir: URLs that wait, which
// the filter knows, and URLs that wait and are known exactly.
func OnDisk(dir string) []Subject {
	return []Subject{
		{Name: "queue in localstore (disk)", Ours: true, Most: most, Add: 20 * time.Microsecond,
			Weigh: weighStore(dir, frontier.Bulk), Predict: localQueue(false)},
		{Name: "queue and exact keys in localstore (disk)", Ours: true, Most: most, Add: 20 * time.Microsecond,
			Weigh: weighStore(dir, frontier.Exact), Predict: localQueue(true)},
	}
}

func localQueue(exact bool) func(n uint64) (low, high float64) {
	return func(n uint64) (low, high float64) {
		least, most := sizing.LocalQueue(n, urlBytes, exact)
		return float64(least), float64(most)
	}
}

// weighStore weighs the tables of a closed store of n items: the filter, which
// lies beside them, is in memory while a crawl runs.
func weighStore(dir string, class frontier.Class) func(context.Context, uint64, func(float64)) (Weight, error) {
	return func(ctx context.Context, n uint64, progress func(float64)) (weight Weight, err error) {
		dir, err := os.MkdirTemp(dir, "store-")
		if err != nil {
			return Weight{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		config := localstore.Config{Dir: dir, Delay: localstore.NoDelay, Filter: membits.Config{Capacity: n}}
		store, err := localstore.Open(config)
		if err != nil {
			return Weight{}, err
		}
		if err := errors.Join(enqueue(ctx, classed{store, class}, n, urlHosts, progress), store.Close()); err != nil {
			return Weight{}, err
		}
		bytes, err := sizeOf(filepath.Join(dir, "store"))
		return Weight{Bytes: float64(bytes), By: "files"}, err
	}
}

// classed is a store to which everything is of one class.
type classed struct {
	frontier.Store
	class frontier.Class
}

// Add implements frontier.Store.
func (c classed) Add(ctx context.Context, items []frontier.Item) ([]frontier.Verdict, error) {
	for i := range items {
		items[i].Class = c.class
	}
	return c.Store.Add(ctx, items)
}

// sizeOf adds up the files below dir.
func sizeOf(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
