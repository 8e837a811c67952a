package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
)

// Loss is a number of items that a worker was told are added to a partition,
// and that the partition has not counted: its server lost its last moments.
type Loss struct {
	Worker    int    `json:"worker"` // its number
	Partition int    `json:"partition"`
	Items     uint64 `json:"items"`
}

// Lost compares what workers were told is added with what partitions counted,
// and returns where these have less. Links that a worker offered again because a
// server forgot them are no loss any more; one that another worker found since
// still is.
//
// Workers tell what they were told once a second: of one that was killed, and of
// calls that are answered meanwhile, the last second is not known. A reply that
// was lost makes a partition count what nobody was told, which hides as much of
// a loss. So the sum is a lower bound, and exact when workers live and no reply
// was lost.
func (s *Store) Lost(ctx context.Context) ([]Loss, error) {
	told, err := s.told(ctx) // before what is counted, which only grows
	if err != nil {
		return nil, err
	}
	metas, err := s.readMetas(ctx)
	if err != nil {
		return nil, err
	}
	var losses []Loss
	for worker, counts := range told {
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

// told returns what each worker was told is added, by partition. This process's
// own is what it is told by now.
func (s *Store) told(ctx context.Context) (map[int][]uint64, error) {
	told := make(map[int][]uint64)
	if s.number > 0 {
		mine := make([]uint64, len(s.parts))
		for i := range mine {
			mine[i] = s.acknowledged[i].Load()
		}
		told[s.number] = mine
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
		told[number] = counts
	}
	return told, nil
}
