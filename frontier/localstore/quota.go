package localstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/bloomfrontier/crawler/frontier"
)

// quotaKey is the row of a group, or of the place that a key has in it.
func quotaKey(group string) []byte { return append([]byte{tableQuota}, group...) }

// Claim implements frontier.Quota. Keys that are not remembered are decided in
// one group of the committer.
func (s *Store) Claim(ctx context.Context, keys []frontier.QuotaKey, most uint64) ([]bool, error) {
	has := make([]bool, len(keys))
	var open []int // indexes of keys that the committer decides
	names := make([]string, len(keys))
	for i, k := range keys {
		if strings.IndexByte(k.Group, 0) >= 0 {
			return nil, fmt.Errorf("localstore: group %q has a zero byte in its name", k.Group)
		}
		names[i] = k.String()
		if has[i] = s.places.Has(names[i]); !has[i] {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return has, nil
	}
	decided := make([]bool, len(open)) // by the committer, which may outlive this call when ctx ends
	err := s.do(ctx, &op{change: func(g *group) (err error) {
		for j, i := range open {
			if decided[j], err = g.claim(keys[i].Group, names[i], most); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	for j, i := range open {
		if has[i] = decided[j]; has[i] {
			s.places.Add(names[i])
		}
	}
	return has, nil
}

func (g *group) claim(name, place string, most uint64) (bool, error) {
	if g.placed[place] {
		return true, nil
	}
	taken, known := g.taken[name]
	if !known {
		var err error
		if taken, err = g.quotaTaken(name); err != nil {
			return false, err
		}
	}
	if taken > 0 { // as it is not for the first host of a domain, and most have one
		row, err := g.get(quotaKey(place))
		if err != nil || row != nil {
			return row != nil, err
		}
	}
	if taken >= most {
		return false, nil
	}
	if g.taken == nil {
		g.taken, g.placed = make(map[string]uint64), make(map[string]bool)
	}
	g.taken[name], g.placed[place] = taken+1, true
	g.set(quotaKey(name), binary.AppendUvarint(nil, taken+1))
	g.set(quotaKey(place), nil)
	return true, nil
}

// Claimed implements frontier.Quota.
func (s *Store) Claimed(_ context.Context, group, key string) (has bool, taken uint64, err error) {
	if err := s.Err(); err != nil {
		return false, 0, err
	}
	row, err := s.get(quotaKey(frontier.QuotaKey{Group: group, Key: key}.String()))
	if err != nil {
		return false, 0, err
	}
	taken, err = s.quotaTaken(group)
	return row != nil, taken, err
}

// quotaTaken returns how many keys have a place in group.
func (s *Store) quotaTaken(group string) (uint64, error) {
	row, err := s.get(quotaKey(group))
	if err != nil || row == nil {
		return 0, err
	}
	taken, n := binary.Uvarint(row)
	if n <= 0 {
		return 0, fatal("read the quota of "+group, errRow)
	}
	return taken, nil
}
