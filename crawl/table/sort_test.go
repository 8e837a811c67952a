package table

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestSortAndLimit: records are sorted by one or several columns of any type, and cut off.
func TestSortAndLimit(t *testing.T) {
	const text = `{"url":"a","status":404,"depth":2,"fetched_at":"2026-11-23T10:00:00.5Z","fields":{"price":10}}
{"url":"b","status":200,"depth":1,"fetched_at":"2026-11-23T10:00:00+02:00","fields":{"price":"9"}}
{"url":"c","depth":2,"fetched_at":"2026-11-23T10:00:00Z","truncated":true}
{"url":"d","status":200,"depth":3,"fetched_at":"1969-01-01T00:00:00Z","fields":{"price":"cheap"}}
{"url":"d2","status":-5,"depth":2}
`
	for _, c := range []struct {
		sort, where string
		limit       uint64
		want        string
	}{
		{"status", "", 0, "d2 b d a c"},
		{"-status", "", 0, "a b d d2 c"},
		{"depth,-url", "", 0, "b d2 c a d"},
		{"-depth,url", "", 2, "d a"},
		{"fetched_at", "", 0, "d b c a d2"},
		{"-fetched_at", "", 0, "a c b d d2"},
		{"fields.price", "", 0, "b a d c d2"},
		{"-truncated,-url", "", 0, "c d2 d b a"},
		{"-url", "", 3, "d2 d c"},
		{"url", "depth = 2", 2, "a c"},
		{"", "depth = 2", 2, "a c"},
		{"", "", 1, "a"},
		{"", "", 100, "a b c d d2"},
	} {
		for _, format := range []Format{JSONL, CSV} {
			table := Table{Schema: withFields(), Format: format, Limit: c.limit, Columns: []Column{{Name: "url"}}}
			if c.sort != "" {
				for _, name := range strings.Split(c.sort, ",") {
					key, err := table.Schema.SortKey(name)
					if err != nil {
						t.Fatal(err)
					}
					table.Sort = append(table.Sort, key)
				}
			}
			if c.where != "" {
				table.Where, _ = table.Schema.Condition(c.where)
			}
			got := strings.NewReplacer("{\"url\":\"", "", "\"}", "", "url\n", "").Replace(write(t, table, text))
			if got := strings.Join(strings.Fields(got), " "); got != c.want {
				t.Errorf("%s: sort %q where %q limit %d = %s, want %s", format, c.sort, c.where, c.limit, got, c.want)
			}
		}
	}
	if _, err := withFields().SortKey("-statuss"); err == nil {
		t.Error("SortKey accepts an unknown column")
	}
}

// TestSortSpills sorts more lines than its budget, with and without a limit. The order must be that of
// a stable sort in memory, in two readings, and the temporary file is removed.
func TestSortSpills(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []uint64{0, 1, 100, 20_000} {
		temp := t.TempDir()
		s := &sorter{temp: temp, limit: limit, budget: 8 << 10}
		var want []entry
		for i := range 20_000 {
			e := entry{[]byte(fmt.Sprint(rng.IntN(500))), fmt.Appendf(nil, "line %d", i)}
			want = append(want, e)
			if err := s.add(e.key, e.line); err != nil {
				t.Fatal(err)
			}
			if s.size > s.budget {
				t.Fatalf("%d bytes are in memory, want %d at most", s.size, s.budget)
			}
		}
		if err := s.finish(); err != nil {
			t.Fatal(err)
		}
		slices.SortStableFunc(want, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
		if limit > 0 {
			want = want[:limit]
		}
		for reading := range 2 {
			n := uint64(0)
			for line, err := range s.lines() {
				if err != nil {
					t.Fatal(err)
				}
				if int(n) < len(want) && !bytes.Equal(line, want[n].line) {
					t.Fatalf("limit %d, reading %d: line %d is %q, want %q", limit, reading, n, line, want[n].line)
				}
				if n++; n == limit {
					break // Table.Write applies the limit
				}
			}
			if int(n) != len(want) {
				t.Errorf("limit %d: %d lines, want %d", limit, n, len(want))
			}
		}
		if limit == 1 && len(s.runs) > 0 {
			t.Error("a limit of one line needed a file")
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(temp); len(left) > 0 {
			t.Errorf("%s is left", left[0].Name())
		}
	}
}
