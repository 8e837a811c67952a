package topk

import (
	"encoding/json"
	"fmt"
)

// stored is the JSON form of a Sketch.
type stored struct {
	Capacity int     `json:"capacity"`
	Total    uint64  `json:"total"`
	Absent   uint64  `json:"absent"`
	Entries  []Entry `json:"entries"` // largest first
}

// MarshalJSON implements json.Marshaler. The result has everything that is needed to
// continue counting.
func (s *Sketch) MarshalJSON() ([]byte, error) {
	return json.Marshal(stored{s.capacity, s.total, s.absent, s.Top(len(s.byKey))})
}

// UnmarshalJSON implements json.Unmarshaler. If text is not a possible sketch, it returns
// an error and leaves s unchanged.
func (s *Sketch) UnmarshalJSON(text []byte) error {
	var from stored
	if err := json.Unmarshal(text, &from); err != nil {
		return err
	}
	if from.Capacity < 0 || len(from.Entries) > from.Capacity {
		return fmt.Errorf("topk: %d keys in a sketch for %d", len(from.Entries), from.Capacity)
	}
	read := Sketch{capacity: from.Capacity, total: from.Total, absent: from.Absent}
	read.fill(from.Entries)
	if len(read.byKey) < len(from.Entries) {
		return fmt.Errorf("topk: a sketch of %d keys contains one of them twice", len(from.Entries))
	}
	for _, c := range from.Entries {
		if c.Count < from.Absent || c.Over > c.Count {
			return fmt.Errorf("topk: count %d of %q, which may be %d too high, does not fit count %d for absent keys",
				c.Count, c.Key, c.Over, from.Absent)
		}
	}
	*s = read
	return nil
}
