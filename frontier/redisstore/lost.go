package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/redisbits"
)

// Loss is a number of items that a partition does not count, although a worker got the answer
// Added for them. The partition's server has lost its last writes.
type Loss struct {
	Worker     int    `json:"worker"` // its number
	Partition  int    `json:"partition"`
	Items      uint64 `json:"items"`
	FoundAgain uint64 `json:"found_again"` // items of these that have been added again since
}

// Lost compares two numbers for each worker and partition: the items for which the worker got
// the answer Added, and the items that the partition counted for it. It returns the differences
// where the partition counted fewer.
//
// A lost item is found again if it was offered again, by any process, and added. The partition
// has the fingerprints of the lost items (see ledger), and Lost looks them up in the filter. So an
// item that was not added again is reported as found with the filter's false-positive rate. An
// item whose fingerprint is unknown counts as not found: that of a worker that was killed within a
// second of the loss or before it, or one that was lost after 4 million later additions.
//
// Workers store their numbers once a second. So the number of a worker does not include the
// items of the last second if the worker was killed or is adding items. If a reply was lost,
// the partition has counted items that the worker has not counted, which hides a loss of the
// same size. So the sum of the differences is a lower bound of the lost items. It is exact if
// the workers are alive and no reply was lost.
func (s *Store) Lost(ctx context.Context) ([]Loss, error) {
	known, err := s.acknowledgedBy(ctx) // read before the counters, which only grow
	if err != nil {
		return nil, err
	}
	metas, err := s.readMetas(ctx)
	if err != nil {
		return nil, err
	}
	losses, err := s.namedLosses(ctx)
	if err != nil {
		return nil, err
	}
	for worker, counts := range known {
		field := fieldAdded + strconv.Itoa(worker)
		for p, acknowledged := range counts {
			counted, _ := strconv.ParseUint(metas[p][field], 10, 64)
			if acknowledged <= counted {
				continue
			}
			at := lossKey{worker, p}
			if losses[at] == nil {
				losses[at] = &Loss{Worker: worker, Partition: p}
			}
			losses[at].Items = max(losses[at].Items, acknowledged-counted)
		}
	}
	sorted := make([]Loss, 0, len(losses))
	for _, loss := range losses {
		sorted = append(sorted, *loss)
	}
	slices.SortFunc(sorted, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Partition, b.Partition))
	})
	return sorted, nil
}

type lossKey struct{ worker, partition int }

// namedLosses returns the losses whose fingerprints are stored.
func (s *Store) namedLosses(ctx context.Context) (map[lossKey]*Loss, error) {
	cmds, _ := pipelined(ctx, s.client, s.parts, func(pipe redis.Pipeliner, p *partition) *redis.MapStringStringCmd {
		return pipe.HGetAll(ctx, p.lost)
	})
	losses := make(map[lossKey]*Loss)
	reader := redisbits.NewReader(s.client)
	for i, p := range s.parts {
		byWorker, err := cmds[i].Result()
		if err != nil {
			return nil, s.classify(ctx, err)
		}
		if len(byWorker) > 0 {
			if err := s.refresh(ctx, p); err != nil { // the filter may have new layers
				return nil, err
			}
		}
		for number, prints := range byWorker {
			worker, err := strconv.Atoi(number)
			if err != nil || len(prints)%printBytes != 0 {
				return nil, fmt.Errorf("redisstore: partition %d has %d bytes of lost items of worker %q", p.number, len(prints), number)
			}
			loss := &Loss{Worker: worker, Partition: p.number, Items: uint64(len(prints) / printBytes)}
			if loss.FoundAgain, err = s.countKnown(ctx, reader, p, prints); err != nil {
				return nil, err
			}
			losses[lossKey{worker, p.number}] = loss
		}
	}
	return losses, nil
}

// countKnown returns how many fingerprints the filter of a partition claims to contain.
func (s *Store) countKnown(ctx context.Context, reader *redisbits.Reader, p *partition, prints string) (known uint64, err error) {
	for some := range slices.Chunk([]byte(prints), maxAddItems*printBytes) {
		asks := make([]redisbits.Ask, 0, maxAddItems)
		for print := range slices.Chunk(some, printBytes) {
			asks = append(asks, redisbits.Ask{Chain: p.chain(), Print: bloomstore.Fingerprint(print)})
		}
		if err := reader.Read(ctx, asks); err != nil {
			return 0, s.classify(ctx, err)
		}
		for i := range asks {
			if asks[i].Known {
				known++
			}
		}
	}
	return known, nil
}

// acknowledgedBy returns, by worker and partition, for how many items the worker got the answer
// Added. The numbers of this process are current.
func (s *Store) acknowledgedBy(ctx context.Context) (map[int][]uint64, error) {
	known := make(map[int][]uint64)
	if s.number > 0 {
		mine := make([]uint64, len(s.parts))
		for i := range mine {
			mine[i] = s.acknowledged[i].Load()
		}
		known[s.number] = mine
	}
	packed, err := s.client.HGetAll(ctx, s.cfg.ackedKey()).Result()
	if err != nil {
		return nil, s.classify(ctx, err)
	}
	for field, value := range packed {
		number, err := strconv.Atoi(field)
		if err != nil || number == s.number {
			continue
		}
		counts, ok := unpackAcknowledged(value)
		if !ok || len(counts) != len(s.parts) {
			return nil, fmt.Errorf("redisstore: worker %d says %q was added", number, value)
		}
		known[number] = counts
	}
	return known, nil
}
