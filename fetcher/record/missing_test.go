package record

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/frontier"
)

// TestRestOfCutFile: if a file is shorter than its committed length, Rest finds the end of the
// last whole line in the file. Rest does not change the position that it gets. Open accepts
// the position that Rest returns.
func TestRestOfCutFile(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", blockBytes+10)
	for name, test := range map[string]struct {
		files     map[string]string
		committed int64
		closed    int
		want      Cut
	}{
		"all there":               {map[string]string{"pages.jsonl": "a\nb\n"}, 4, 0, Cut{"d/pages.jsonl", 4, 4, 4}},
		"longer":                  {map[string]string{"pages.jsonl": "a\nb\nc"}, 4, 0, Cut{"d/pages.jsonl", 4, 5, 4}},
		"cut between lines":       {map[string]string{"pages.jsonl": "a\n"}, 4, 0, Cut{"d/pages.jsonl", 2, 2, 4}},
		"cut within a line":       {map[string]string{"pages.jsonl": "a\nbc"}, 9, 0, Cut{"d/pages.jsonl", 2, 4, 9}},
		"a long half line":        {map[string]string{"pages.jsonl": "a\n" + long}, 1 << 20, 0, Cut{"d/pages.jsonl", 2, blockBytes + 12, 1 << 20}},
		"nothing but half a line": {map[string]string{"pages.jsonl": long}, 1 << 20, 0, Cut{"d/pages.jsonl", 0, blockBytes + 10, 1 << 20}},
		"gone":                    {nil, 4, 0, Cut{"d/pages.jsonl", 0, 0, 4}},
		"behind a closed file":    {map[string]string{"pages-000001.jsonl": "z\n", "pages.jsonl": "a\n"}, 4, 1, Cut{"d/pages.jsonl", 2, 2, 4}},
		"closed, not committed":   {map[string]string{"pages-000001.jsonl": "a\nb", "pages.jsonl": ""}, 4, 0, Cut{"d/pages-000001.jsonl", 2, 3, 4}},
	} {
		disk := vfs.NewMem()
		if err := disk.MkdirAll("d", 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range test.files {
			f, err := disk.Create("d/"+file, vfs.WriteCategoryUnspecified)
			if err == nil {
				_, err = f.Write([]byte(text))
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		position := frontier.Position{{File: Pages.active(), Length: test.committed}, {File: "warc/x", Length: 7}}
		if test.closed > 0 {
			position = append(position, frontier.FileLength{File: Pages.closed(test.closed)})
		}
		cfg := Config{Dir: "d", FS: disk}
		rest, cut, err := Rest(cfg, position)
		if err != nil || cut != test.want || rest[0].Length != test.want.Whole || rest[1].Length != 7 || position[0].Length != test.committed {
			t.Errorf("%s: Rest = %+v, %+v, %v, want %+v", name, rest, cut, err, test.want)
		}
		if _, err := Open(cfg, position); test.want.Missing() != errors.As(err, new(*MissingError)) {
			t.Errorf("%s: Open at the committed position: %v", name, err)
		}
		files, err := Open(cfg, rest)
		if err != nil {
			t.Errorf("%s: Open at the position that Rest returned: %v", name, err)
			continue
		}
		if err := files.Close(); err != nil {
			t.Error(err)
		}
	}
	if rest, cut, err := Rest(Config{Dir: "d", FS: vfs.NewMem()}, nil); err != nil || len(rest) != 0 || cut.Missing() {
		t.Errorf("Rest without files = %v, %+v, %v, want nothing missing", rest, cut, err)
	}
}
