package report

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "write testdata again")

// madeUp returns a report with every kind of content.
func madeUp() *Report {
	s := &Section{Name: "fpr", Title: "False positives", About: "Filled and probed.\n\n* one item\n* another item"}
	kept, broken := s.Promise("a new key is taken for a known one with a probability of at most p"), s.Promise("exact stores lose nothing")
	s.Promise("no key that was added is denied")
	kept.Hold(true, "")
	kept.Hold(true, "")
	broken.Hold(true, "")
	broken.Hold(false, "localstore: 3 of 100 new keys were taken for known ones")
	table := s.Table("Claimed when full", "set", "keys", "p", "95 % interval", "theory")
	table.Row(Words("membits"), Count(1_000_000), Number(0.012345, 3), Words("0.0121 … 0.0126"), Fixed(1.5, 2))
	table.Row(Words("a | b"), Count(1000), Number(math.Inf(1), 3))
	s.Table("Nothing came", "set", "keys")
	s.Miss("redisbits", "redis-server is not installed")
	return &Report{
		Command: "crawler bench fpr --n 1M", Version: "v1.2.3, go1.26.8", Seed: 42, Took: 12.34, Budget: 60,
		Began: time.Date(2026, 11, 20, 1, 2, 3, 0, time.UTC), Machine: "2 cores, linux amd64, A chip",
		Servers:  []string{"Redis 7.0.15", "Postgres 15.1"},
		Sections: []*Section{s},
	}
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", name, diff)
	}
}

func TestMarkdownTables(t *testing.T) {
	golden(t, "report.md", madeUp().Markdown())
}

// TestRoundTrip checks which files Write creates, and that report.json has the whole
// report.
func TestRoundTrip(t *testing.T) {
	dir, want := filepath.Join(t.TempDir(), "new", "folder"), madeUp()
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	got := new(Report)
	if err := json.Unmarshal(text, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Section{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	if got.Markdown() != want.Markdown() {
		t.Error("the Markdown of the report that was read differs from that of the written report")
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	if diff := cmp.Diff([]string{MarkdownFile, JSONFile}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestWriteFails checks that Write returns an error if it cannot make the folder.
func TestWriteFails(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := madeUp().Write(name); err == nil {
		t.Error("Write to a path that is a file: no error")
	}
}

func TestMachine(t *testing.T) {
	if m := machine(); !strings.Contains(m, " cores, ") || !strings.Contains(m, " "+runtime.GOARCH) {
		t.Errorf("machine() = %q, want the number of cores and the architecture", m)
	}
}
