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

// MarshalJSON writes everything that UnmarshalJSON needs to go on counting.
func (s *Sketch) MarshalJSON() ([]byte, error) {
	return json.Marshal(stored{s.capacity, s.total, s.absent, s.Top(len(s.byKey))})
}

// UnmarshalJSON replaces s by the sketch that text holds, or leaves it as it is
// and says what no sketch can hold.
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
		return fmt.Errorf("topk: a key is there twice among %d", len(from.Entries))
	}
	for _, c := range from.Entries {
		if c.Count < from.Absent || c.Over > c.Count {
			return fmt.Errorf("topk: count %d of %q, up to %d too high, beside %d for absent keys",
				c.Count, c.Key, c.Over, from.Absent)
		}
	}
	*s = read
	return nil
}
