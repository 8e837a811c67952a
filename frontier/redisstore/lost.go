package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
)

// Loss is a number of items that a partition does not count, although a worker got the answer
// Added for them. The partition's server has lost its last writes.
type Loss struct {
	Worker    int    `json:"worker"` // its number
	Partition int    `json:"partition"`
	Items     uint64 `json:"items"`
}

// Lost compares two numbers for each worker and partition: the items for which the worker got
// the answer Added, and the items that the partition counted for it. It returns the differences
// where the partition counted fewer. A lost link does not count if Complete has offered it
// again. Every other lost item counts, even if another worker has added it since.
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
	var losses []Loss
	for worker, counts := range known {
		field := fieldAdded + strconv.Itoa(worker)
		for p, acknowledged := range counts {
			counted, _ := strconv.ParseUint(metas[p][field], 10, 64)
			if acknowledged > counted {
				losses = append(losses, Loss{Worker: worker, Partition: p, Items: acknowledged - counted})
			}
		}
	}
	slices.SortFunc(losses, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Partition, b.Partition))
	})
	return losses, nil
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
