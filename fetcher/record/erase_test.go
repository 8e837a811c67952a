package record_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/record"
	points "github.com/bloomfrontier/crawler/internal/crash"
)

// TestErase: lines of closed files, packed or not, are erased and keep their places; the active file stays. Whenever Erase
// is interrupted, each file has all old lines or none, and a repeat finishes it.
func TestErase(t *testing.T) { // it sets the hook of crash points
	for _, packed := range []bool{false, true} {
		t.Run(fmt.Sprintf("packed=%t", packed), func(t *testing.T) {
			cfg := record.Config{Dir: t.TempDir(), RotateBytes: 600, Compress: packed}
			files := must(record.Open(cfg, nil))
			for n := range 20 {
				r := &record.Record{URL: fmt.Sprintf("http://a.test/%d", n), Host: "a.test", Outcome: "ok", Status: 200, ID: "0123456789abcdef", Item: bloomstore.Fingerprint{1, byte(n)}}
				_ = files.Append(r)
				must(files.Sync())
			}
			_ = files.Close()
			reader := record.Reader{Dir: cfg.Dir}
			places := func() (all []string) {
				tail := reader.Tail(record.Place{File: 1})
				end := must(reader.WholeLines())
				for {
					line, err := tail.Next(end)
					if err != nil {
						return all
					}
					all = append(all, fmt.Sprint(tail.At(), record.ItemOf(line)))
				}
			}
			before := places()
			even := func(line []byte) uint64 {
				if n := record.ItemOf(line)[1]; n%2 == 0 && bytes.Contains(line, []byte(`"url"`)) {
					return 7
				}
				return 0
			}
			dry := must(record.Erase(t.Context(), cfg.Dir, true, even))
			for kill := 1; ; kill++ {
				passed := 0
				points.Hook(func(point string) {
					if strings.HasPrefix(point, "erase") {
						if passed++; passed == kill {
							panic("killed")
						}
					}
				})
				killed := func() (killed bool) {
					defer func() { killed = recover() != nil }()
					_ = must(record.Erase(t.Context(), cfg.Dir, false, even))
					return false
				}()
				points.Hook(nil)
				if !killed {
					break
				}
				if n := len(places()); n != 20 {
					t.Fatalf("after kill %d there are %d lines, want 20", kill, n)
				}
			}
			if dry.Closed < 5 || dry.Active > 1 || dry.Closed+dry.Active != 10 {
				t.Errorf("counted %+v, want 10 lines, at most one of them in the active file", dry)
			}
			if after := places(); strings.Join(after, " ") != strings.Join(before, " ") {
				t.Errorf("places are %v, want %v", after, before)
			}
			shown, erased := 0, 0
			reader.Erased = true
			for line, err := range reader.Lines() {
				if err != nil {
					t.Fatal(err)
				}
				if since, is := record.Since(line); is {
					erased++
					if since != 7 || bytes.Contains(line, []byte("http://")) {
						t.Errorf("erased line %s", line)
					}
				} else {
					shown++
				}
			}
			if erased != int(dry.Closed) || shown != 20-erased {
				t.Errorf("%d lines erased, %d not, want %d", erased, shown, dry.Closed)
			}
			if again := must(record.Erase(t.Context(), cfg.Dir, false, even)); again.Closed != 0 {
				t.Errorf("a repeat erases %+v", again)
			}
			left, _ := filepath.Glob(filepath.Join(cfg.Dir, "*.new"))
			if len(left) > 0 {
				t.Errorf("files %v are left", left)
			}
		})
	}
}
