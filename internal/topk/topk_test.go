package topk

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// tally has the exact counts of a stream, for comparison with a sketch.
type tally map[string]uint64

// check compares s with every bound that the comments of Sketch promise. exact has the
// exact counts of the same stream. If tight is true, Absent must be at most
// Total/capacity.
func check(t *rapid.T, s *Sketch, exact tally, tight bool) {
	total := uint64(0)
	held := make(map[string]Entry)
	for _, c := range s.Top(s.capacity) {
		held[c.Key] = c
	}
	for key, n := range exact {
		total += n
		c, holds := held[key]
		switch {
		case !holds && n > s.Absent():
			t.Fatalf("%q was added %d times and is not in Top, but Absent is %d", key, n, s.Absent())
		case holds && (n > c.Count || n < c.Count-c.Over):
			t.Fatalf("%q was added %d times, but its Count is %d, which is at most %d too high", key, n, c.Count, c.Over)
		}
	}
	for key := range held {
		if exact[key] == 0 {
			t.Fatalf("%q is in Top but was never added", key)
		}
	}
	if s.Total() != total {
		t.Fatalf("Total = %d, want %d", s.Total(), total)
	}
	if tight && s.Absent()*uint64(s.capacity) > total {
		t.Fatalf("Absent = %d, want at most %d/%d", s.Absent(), total, s.capacity)
	}
}

// TestBoundsOfCounts compares sketches with exact counts, also after merges and after a
// conversion to JSON and back.
func TestBoundsOfCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sketches, exact := make([]*Sketch, 3), make([]tally, 3)
		same := rapid.Bool().Draw(t, "same capacity")
		for i := range sketches {
			capacity := rapid.IntRange(1, 6).Draw(t, "capacity")
			if same && i > 0 {
				capacity = sketches[0].capacity
			}
			sketches[i], exact[i] = New(capacity), make(tally)
		}
		which := rapid.IntRange(0, len(sketches)-1)
		key := rapid.StringMatching(`[a-j]`)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				i := which.Draw(t, "to")
				for range rapid.IntRange(1, 8).Draw(t, "times") {
					key, n := key.Draw(t, "key"), rapid.Uint64Range(0, 20).Draw(t, "n")
					sketches[i].Add(key, n)
					if n > 0 {
						exact[i][key] += n
					}
				}
			},
			"merge": func(t *rapid.T) {
				to, from := which.Draw(t, "to"), which.Draw(t, "from")
				if sketches[to].Total() > 1<<40 {
					t.Skip("the counts would overflow soon")
				}
				sketches[to].Merge(sketches[from])
				sum := make(tally)
				for _, counts := range []tally{exact[to], exact[from]} {
					for key, n := range counts {
						sum[key] += n
					}
				}
				exact[to] = sum
			},
			"json": func(t *rapid.T) {
				i := which.Draw(t, "of")
				text, err := json.Marshal(sketches[i])
				if err != nil {
					t.Fatal(err)
				}
				back := new(Sketch)
				if err := json.Unmarshal(text, back); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				sketches[i] = back
			},
			"": func(t *rapid.T) {
				for i, s := range sketches {
					check(t, s, exact[i], same)
				}
			},
		})
	})
}

// TestTopOfUnevenWeb finds the largest hosts of an uneven web exactly, because
// the share of each is far larger than 1/capacity.
func TestTopOfUnevenWeb(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	zipf := rand.NewZipf(rand.New(rand.NewPCG(seed, 0)), 1.3, 1, 100_000)
	s, exact := New(1000), make(tally)
	for range 300_000 {
		key := fmt.Sprintf("host%d.test", zipf.Uint64())
		s.Add(key, 1)
		exact[key]++
	}
	for rank, c := range s.Top(5) {
		want := fmt.Sprintf("host%d.test", rank)
		if c.Key != want || c.Count < exact[want] || c.Count-c.Over > exact[want] {
			t.Errorf("rank %d (from 0) is %+v, want %s, which was added %d times", rank, c, want, exact[want])
		}
	}
}

// TestExactWhileSmall: counts are exact while the sketch is not full, and keys with equal counts are
// sorted.
func TestExactWhileSmall(t *testing.T) {
	s := New(6)
	for _, key := range []string{"e", "b", "d", "a", "c", "a"} {
		s.Add(key, 2)
	}
	s.Add("nothing", 0)
	if diff := cmp.Diff([]Entry{{"a", 4, 0}, {"b", 2, 0}, {"c", 2, 0}, {"d", 2, 0}, {"e", 2, 0}}, s.Top(10)); diff != "" {
		t.Errorf("Top(10) (-want +got):\n%s", diff)
	}
	if got := s.Top(-1); len(got) != 0 {
		t.Errorf("Top(-1) = %v, want none", got)
	}
	var zero Sketch
	zero.Add("a", 1)
	if zero.Total() != 1 || zero.Absent() != 1 || len(zero.Top(1)) != 0 {
		t.Errorf("zero sketch after one key: total %d, absent %d, top %v, want 1, 1, none", zero.Total(), zero.Absent(), zero.Top(1))
	}
}

// TestDamagedJSON: text that no sketch has written is refused, and does not change the sketch.
func TestDamagedJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{`: "unexpected end",
		`{"capacity":1,"entries":[{"key":"a","count":1},{"key":"b","count":1}]}`: "2 keys in a sketch for 1",
		`{"capacity":-1}`: "sketch for -1",
		`{"capacity":2,"entries":[{"key":"a","count":1},{"key":"a","count":1}]}`: "contains one of them twice",
		`{"capacity":2,"entries":[{"key":"a","count":1,"over":2}]}`:              "too high",
		`{"capacity":2,"absent":5,"entries":[{"key":"a","count":1}]}`:            "count 5 for absent keys",
	} {
		s := New(4)
		s.Add("kept", 1)
		err := s.UnmarshalJSON([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", text, err, want)
		}
		if len(s.Top(1)) != 1 {
			t.Errorf("%s: the sketch lost its key", text)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 0)), 1.1, 1, 1_000_000)
	keys := make([]string, 1<<16)
	for i := range keys {
		keys[i] = fmt.Sprintf("host%d.test", zipf.Uint64())
	}
	s, i := New(1000), 0
	for b.Loop() {
		s.Add(keys[i%len(keys)], 1)
		i++
	}
}
