package record

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
)

// FuzzLatest writes records of several rounds in random order, and compares the result of Latest with
// that of a map in memory.
func FuzzLatest(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed, uint16(100*seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint16) {
		temp, random := t.TempDir(), rand.New(rand.NewPCG(seed, 0))
		var all [][]byte
		latest, rounds := map[string]int{}, map[string]int{} // by URL: the number of the line, and its round
		for i := range int(n % 2000) {
			r := sample(random.IntN(int(n)/3+1), 0)
			r.URL += "?a=1&b=2" // & is escaped
			r.Round = random.IntN(4)
			key := r.URL
			if random.IntN(4) == 0 { // another item
				r.Outcome, r.Check, key = "check_ok", "ok", "check "+r.URL
			}
			text := line(t, r)
			if random.IntN(2) == 0 {
				text = bytes.ReplaceAll(text, []byte(`\u0026`), []byte("&"))
			}
			all = append(all, text)
			if old, known := rounds[key]; !known || old <= r.Round {
				latest[key], rounds[key] = i, r.Round
			}
		}
		end := len(all)
		lines := func(yield func([]byte, error) bool) {
			for _, text := range all {
				if !yield(bytes.Clone(text), nil) {
					return
				}
			}
		}
		chosen, err := Latest(t.Context(), lines, temp)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line(t, sample(7, 0))) // a later reading has more lines
		var want []byte
		wanted := make(map[int]bool)
		for _, i := range latest {
			wanted[i] = true
		}
		for i := range end {
			if wanted[i] {
				want = append(want, all[i]...)
			}
		}
		for range 2 {
			if got := textOf(t, chosen); !bytes.Equal(got, want) {
				t.Fatalf("Latest chose\n%s\nwant\n%s", got, want)
			}
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Fatalf("Latest left the files %v (%v)", left, err)
		}
	})
}

// TestLatestRefusesOtherLines: Latest names the number of a line that is not a record.
func TestLatestRefusesOtherLines(t *testing.T) {
	t.Parallel()
	lines := func(yield func([]byte, error) bool) {
		_ = yield(line(t, sample(1, 0)), nil) && yield([]byte("{}\n"), nil)
	}
	if _, err := Latest(t.Context(), lines, t.TempDir()); fmt.Sprint(err) != "record: line 2: not a record's line" {
		t.Errorf("error %v", err)
	}
}

// TestLatestMemory: of a million records, half of them superseded, Latest holds a few bytes each.
func TestLatestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it hashes a million URLs")
	}
	const urls, rounds = 500_000, 2
	lines := func(yield func([]byte, error) bool) {
		var b []byte
		for round := range rounds {
			for n := range urls {
				b = fmt.Appendf(b[:0], `{"url":"https://www.example.org/articles/%d/some-title-of-a-page","attempts":1,"round":%d}`+"\n", n, round)
				if !yield(b, nil) {
					return
				}
			}
		}
	}
	peak, n := uint64(0), 0
	watched := func(yield func([]byte, error) bool) {
		for line, err := range lines {
			if n++; n%100_000 == 0 {
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				peak = max(peak, stats.HeapInuse)
			}
			if !yield(line, err) {
				return
			}
		}
	}
	latest, err := Latest(t.Context(), watched, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	chosen := 0
	for line, err := range latest {
		if chosen++; err != nil || !bytes.Contains(line, []byte(`"round":1}`)) {
			t.Fatalf("line %s, error %v", line, err)
		}
	}
	t.Logf("at most %d MB", peak>>20)
	if chosen != urls || peak > 64<<20 {
		t.Errorf("%d records, want %d; %d MB of memory, want at most 64", chosen, urls, peak>>20)
	}
}
