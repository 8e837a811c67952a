package record

import "testing"

// TestDoubtHas: a span includes its first place and excludes its last.
func TestDoubtHas(t *testing.T) {
	t.Parallel()
	d := Doubt{Spans: []Span{{Place{1, 5}, Place{1, 9}}, {Place{1, 12}, Place{2, 3}}, {Place{4, 0}, Place{4, 1}}}}
	doubtful := map[Place]bool{{4, 0}: true}
	for offset := int64(5); offset < 30; offset++ {
		doubtful[Place{1, offset}] = offset < 9 || offset >= 12
	}
	for offset := range int64(3) {
		doubtful[Place{2, offset}] = true
	}
	for file := 1; file < 6; file++ {
		for offset := range int64(30) {
			if at := (Place{file, offset}); d.Has(at) != doubtful[at] {
				t.Errorf("Has(%v) = %v", at, d.Has(at))
			}
		}
	}
	if new(Doubt).Has(Place{1, 0}) {
		t.Error("a Doubt without spans has a line")
	}
}
