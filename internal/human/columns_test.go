package human

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestColumns(t *testing.T) {
	rows := [][]string{{"name", "n", "note"}, {"±", "12,345", "ok"}, {"filter", "1", ""}}
	want := []string{"name         n  note", "±       12,345  ok", "filter       1"}
	if diff := cmp.Diff(want, Columns(rows, 0, 2)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
