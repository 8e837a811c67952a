package crawl_test

import (
	"bytes"
	"iter"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/table"
)

// TestSnapshotOfGrowingCrawl: a table reads a snapshot twice. Between the two readings, the
// crawl adds records with another field. The table has neither these records nor a column
// for this field.
func TestSnapshotOfGrowingCrawl(t *testing.T) {
	t.Parallel()
	c := config(t, site(t))
	c.Settings.MaxPages = 1
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	h := attach(t, c)
	c.Settings.MaxPages = 0
	c.Settings.Fields = []crawl.FieldGroup{{Fields: []string{"added_later=h1"}}}
	var csv bytes.Buffer
	wanted := table.Table{Schema: table.Records(), Format: table.CSV}
	err := h.Snapshot(t.Context(), crawl.Selection{Temp: t.TempDir()}, func(records iter.Seq2[[]byte, error]) error {
		readings := 0
		return wanted.Write(func() table.Lines {
			if readings++; readings == 2 {
				if err := crawl.Run(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			return records
		}, &csv)
	})
	if err != nil || !wanted.ReadsTwice() {
		t.Fatalf("Snapshot: %v; ReadsTwice is %t", err, wanted.ReadsTwice())
	}
	if strings.Count(csv.String(), "\n") != 2 || strings.Contains(csv.String(), "added_later") {
		t.Errorf("the snapshot is not a header and 1 record, without the later field:\n%s", &csv)
	}
	if ids := idsOf(t, h); len(ids) != 3 {
		t.Errorf("the crawl has %d records, want 3", len(ids))
	}
}
