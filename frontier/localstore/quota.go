package localstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
)

// quotaKey is the row of a group, or of the place that a key has in it.
func quotaKey(group string) []byte { return append([]byte{tableQuota}, group...) }

// placeName names the place of key in group: no group has a 0 in its name.
func placeName(group, key string) string { return group + "\x00" + key }

// Claim implements frontier.Quota.
func (s *Store) Claim(ctx context.Context, name, key string, most uint64) (bool, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return false, fmt.Errorf("localstore: group %q has a zero byte in its name", name)
	}
	place := placeName(name, key)
	if s.places.Has(place) {
		return true, nil
	}
	has := false
	err := s.do(ctx, &op{change: func(g *group) (err error) {
		has, err = g.claim(name, place, most)
		return err
	}})
	if err != nil { // the committer may still be at it
		return false, err
	}
	if has {
		s.places.Add(place)
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
	row, err := s.get(quotaKey(placeName(group, key)))
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
