package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/frontier"
)

// hiccups is a store that is unavailable at the first call of Counters and of Stats.
type hiccups struct {
	engine.Look
	counters, stats int // number of calls
}

func first(asked *int) error {
	if *asked++; *asked == 1 {
		return fmt.Errorf("%w: EOF", frontier.ErrUnavailable)
	}
	return nil
}

func (h *hiccups) Counters(ctx context.Context) (frontier.Stats, error) {
	if err := first(&h.counters); err != nil {
		return frontier.Stats{}, err
	}
	return h.Look.Counters(ctx)
}

func (h *hiccups) Stats(ctx context.Context) (frontier.Stats, error) {
	if err := first(&h.stats); err != nil {
		return frontier.Stats{}, err
	}
	return h.Look.Stats(ctx)
}

// TestRunWaitsForStore: a run waits for a store that is unavailable at the beginning of
// the run, or at its end, when the run reads the counts.
func TestRunWaitsForStore(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "a page")
	}))
	defer web.Close()
	var log bytes.Buffer
	config := Config{
		Dir: filepath.Join(t.TempDir(), "x.crawl"), Seeds: []string{web.URL}, Settings: small(),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	config.Settings.Delay, config.Settings.AllowPrivate = 0, true
	p, err := Prepare(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ses, err := openSession(t.Context(), p, engine.ToCrawl)
	if err != nil {
		t.Fatal(err)
	}
	e := ses.engine
	away := &hiccups{Look: e.Look}
	e.Look = away
	c, err := ses.serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	result, err := c.Run(t.Context())
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if away.counters < 2 || away.stats < 2 || result.Stats.Pages != 1 {
		t.Errorf("Counters and Stats: %d and %d calls, want more than 1 each; %d pages, want 1", away.counters, away.stats, result.Stats.Pages)
	}
	for _, want := range []string{"the crawl waits", "the summary waits"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is missing from:\n%s", want, log.String())
		}
	}
}
