package crawl

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
)

// endless is a store whose records never end.
type endless struct {
	engine.Look
	line []byte
}

func (e *endless) CommittedRecords(context.Context) (engine.RecordSource, error) {
	return endlessRecords{line: e.line}, nil
}

type endlessRecords struct {
	engine.RecordSource
	line []byte
}

func (e endlessRecords) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for yield(e.line, nil) {
		}
	}
}

// TestSeedsFileIsBoundedByGrace: at its end, a run reads its records to write seeds.jsonl.
// After MaxTime, the run stops this reading before Settings.Grace is over, and keeps the old
// seeds.jsonl.
func TestSeedsFileIsBoundedByGrace(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := small()
	s.MaxTime, s.Grace = 100*time.Millisecond, 2*time.Second
	c, err := Open(t.Context(), Config{
		Dir: filepath.Join(t.TempDir(), "x.crawl"), Settings: s,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.ses.engine.Look = &endless{c.ses.engine.Look, []byte(`{"url":"http://a.test/","id":"0123456789abcdef","outcome":"ok"}`)}
	const before = `{"url":"gopher://a.test/","why":"refused","pages":0,"urls":0,"waiting":0}` + "\n"
	seeds := filepath.Join(c.Dir(), seedsFile)
	if err := os.WriteFile(seeds, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	// While done, the result of Feed, was not called, the run does not end for lack of URLs. So
	// it goes on until MaxTime.
	defer c.Feed()(SeedCounts{})
	result, err := c.Run(t.Context())
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if result.End != TimeOver {
		t.Errorf("the run ended with %q, want %q", result.End, TimeOver)
	}
	after, err := os.ReadFile(seeds)
	if err != nil || string(after) != before {
		t.Errorf("seeds.jsonl is %q, %v, want the old text %q", after, err, before)
	}
	if !strings.Contains(log.String(), "seeds.jsonl was not updated") {
		t.Errorf("the log does not say that seeds.jsonl was not updated:\n%s", log.String())
	}
}
