package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
)

// Loss is a number of items of a partition that a worker knows were added and that the
// partition has not counted, because its server lost its last moments.
type Loss struct {
	Worker    int    `json:"worker"` // its number
	Partition int    `json:"partition"`
	Items     uint64 `json:"items"`
}

// Lost compares the items that workers know were added with those that partitions counted,
// and returns where the latter are fewer. Links that a worker offered again because a server
// lost them are no longer a loss; links that another worker found since still are.
//
// Workers store what they know once a second. The last second is missing for a worker that was
// killed, and for concurrent calls. A lost reply makes a partition count items that no worker
// knows of, which hides as large a loss. So the sum is a lower bound, and exact if workers
// live and no reply was lost.
func (s *Store) Lost(ctx context.Context) ([]Loss, error) {
	known, err := s.acknowledgedBy(ctx) // before the counters, which only grow
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

// acknowledgedBy returns, for each worker, how many items it knows were added, by partition.
// For this process the numbers are current.
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
