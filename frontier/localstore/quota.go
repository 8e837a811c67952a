package localstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/bloomfrontier/crawler/frontier"
)

// quotaKey returns the database key of the row of a group, or of a member of a group. The
// name of a member is its group and its key, joined.
func quotaKey(name string) []byte { return append([]byte{tableQuota}, name...) }

// Reserve implements frontier.Quota. In one op, the committer decides about all keys
// that are not in Store.members.
func (s *Store) Reserve(ctx context.Context, keys []frontier.QuotaKey, maxKeys uint64) ([]bool, error) {
	has := make([]bool, len(keys))
	var open []int // indexes of keys that the committer decides
	names := make([]string, len(keys))
	for i, k := range keys {
		if strings.IndexByte(k.Group, 0) >= 0 {
			return nil, fmt.Errorf("localstore: group %q has a zero byte in its name", k.Group)
		}
		names[i] = k.String()
		if has[i] = s.members.Has(names[i]); !has[i] {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return has, nil
	}
	decided := make([]bool, len(open)) // written by the committer, even after ctx has ended
	err := s.submit(ctx, &op{change: func(g *group) (err error) {
		for j, i := range open {
			if decided[j], err = g.reserve(keys[i].Group, names[i], maxKeys); err != nil {
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
			s.members.Add(names[i])
		}
	}
	return has, nil
}

// reserve adds a member, which is group and key joined, to its quota group.
func (g *group) reserve(name, member string, maxKeys uint64) (bool, error) {
	if g.reserved[member] {
		return true, nil
	}
	size, known := g.sizes[name]
	if !known {
		var err error
		if size, err = g.quotaSize(name); err != nil {
			return false, err
		}
	}
	if size > 0 { // an empty group needs no look-up, and most domains have only one host
		row, err := g.get(quotaKey(member))
		if err != nil || row != nil {
			return row != nil, err
		}
	}
	if size >= maxKeys {
		return false, nil
	}
	g.sizes[name], g.reserved[member] = size+1, true
	g.set(quotaKey(name), binary.AppendUvarint(nil, size+1))
	g.set(quotaKey(member), nil)
	return true, nil
}

// Reserved implements frontier.Quota.
func (s *Store) Reserved(_ context.Context, group, key string) (has bool, size uint64, err error) {
	if err := s.hold(); err != nil {
		return false, 0, err
	}
	defer s.readers.Done()
	row, err := s.get(quotaKey(frontier.QuotaKey{Group: group, Key: key}.String()))
	if err != nil {
		return false, 0, err
	}
	size, err = s.quotaSize(group)
	return row != nil, size, err
}

func (s *Store) quotaSize(group string) (uint64, error) {
	row, err := s.get(quotaKey(group))
	if err != nil || row == nil {
		return 0, err
	}
	size, n := binary.Uvarint(row)
	if n <= 0 {
		return 0, fatal("read the quota of "+group, errRow)
	}
	return size, nil
}
