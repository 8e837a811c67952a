package table

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTextFitsTerminal: no line is wider than the terminal, characters of two columns included. URLs keep both ends,
// and other texts their beginning.
func TestTextFitsTerminal(t *testing.T) {
	type line struct {
		N     int      `json:"n"`
		URL   string   `json:"url"`
		Title string   `json:"title"`
		From  []string `json:"from"`
	}
	text := `{"n":7,"url":"http://127.0.0.1:8000/recipes/of/spring/salad.html","title":"日本語の長い表題がここにある","from":["http://a.test/1","http://a.test/2"]}
{"n":1200,"url":"http://a.test/","title":"short","from":["http://a.test/3"]}
`
	table := Table{Schema: SchemaOf[line](), Format: Text, Width: 60, Sum: "n", Total: func(rows, sum uint64) string { return fmt.Sprint(rows, " rows, ", sum) }}
	want := `   n  url               title              from
   7  http://…lad.html  日本語の長い表題…  http://a.test/1 …
1200  http://a.test/    short              http://a.test/3
2 rows, 1207
`
	if diff := cmp.Diff(want, write(t, table, text)); diff != "" {
		t.Error(diff)
	}
	for width := 38; width < 100; width++ {
		table.Width = width
		for out := range strings.Lines(write(t, table, text)) {
			if w := widthOf(strings.TrimSuffix(out, "\n")); w > width {
				t.Errorf("a terminal of %d columns gets %d: %s", width, w, out)
			}
		}
	}
	table.Width = 0
	if out := write(t, table, text); !strings.Contains(out, "http://127.0.0.1:8000/recipes/of/spring/salad.html  日本語の長い表題がここにある  http://a.test/1 http://a.test/2\n") {
		t.Errorf("without a width cells are cut:\n%s", out)
	}
}

// TestTextWithoutRows: the total alone says that there is nothing.
func TestTextWithoutRows(t *testing.T) {
	table := Table{Schema: Records(), Format: Text, Total: func(rows, _ uint64) string { return fmt.Sprint(rows, " rows") }}
	if out := write(t, table, ""); out != "0 rows\n" {
		t.Errorf("wrote %q", out)
	}
}
