package engine

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/fetcher/record"
)

// growing is a source that has one line more in each reading.
type growing struct{ readings *int }

func (g growing) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		*g.readings++
		for range *g.readings {
			if !yield([]byte("{}\n"), nil) {
				return
			}
		}
	}
}

func (growing) Trail(string) ([]record.Record, error) { return nil, errors.ErrUnsupported }

// TestSnapshotReadsOnce: all readings of a snapshot have the same lines, although the source
// has more lines in each reading.
func TestSnapshotReadsOnce(t *testing.T) {
	var got []string
	err := Snapshot(t.Context(), growing{new(int)}, t.TempDir(), func(fixed RecordSource) error {
		for range 2 {
			var text strings.Builder
			for line, err := range fixed.Lines() {
				if err != nil {
					return err
				}
				text.Write(line)
			}
			got = append(got, text.String())
		}
		return nil
	})
	if err != nil || len(got) != 2 || got[0] != "{}\n" || got[1] != "{}\n" {
		t.Errorf("the readings returned %q, %v, want one line in each", got, err)
	}
}
