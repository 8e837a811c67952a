package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/frontier"
)

// hiccups is a store that is away whenever it is asked something for the first
// time.
type hiccups struct {
	engine
	counters, stats, layers int // how often it was asked
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
	return h.engine.Counters(ctx)
}

func (h *hiccups) Stats(ctx context.Context) (frontier.Stats, error) {
	if err := first(&h.stats); err != nil {
		return frontier.Stats{}, err
	}
	return h.engine.Stats(ctx)
}

func (h *hiccups) FilterLayers(ctx context.Context) ([]frontier.FilterLayer, error) {
	if err := first(&h.layers); err != nil {
		return nil, err
	}
	return h.engine.FilterLayers(ctx)
}

// TestAwayForAMoment: a store that is away when a run begins, or when it is
// over and its books are read, is waited for.
func TestAwayForAMoment(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "a page")
	}))
	defer web.Close()
	o, cmd := new(options), new(cobra.Command)
	addSections(cmd, o.newFlags())
	if err := cmd.ParseFlags([]string{"--dir", filepath.Join(t.TempDir(), "x.crawl"), "--allow-private"}); err != nil {
		t.Fatal(err)
	}
	seeds := []string{web.URL + "/"}
	p, err := o.resolve(t.Context(), cmd.Flags(), seeds)
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	ses, err := openSession(t.Context(), p, streams{in: strings.NewReader(""), out: io.Discard, err: &errs}, toCrawl)
	if err != nil {
		t.Fatal(err)
	}
	away := &hiccups{engine: ses.store}
	ses.store = away
	reader, err := newSeedReader(t.Context(), seeds, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.close()
	result, err := ses.work(t.Context(), reader, func() {}, newConsole(&errs))
	if err = errors.Join(err, ses.close()); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	result.print(newConsole(&errs))
	if away.counters < 2 || away.stats < 2 || away.layers < 2 {
		t.Errorf("asked %d, %d and %d times, want more than once each", away.counters, away.stats, away.layers)
	}
	for _, want := range []string{"the crawl waits: ", "the summary waits: ", "1 page in"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is missing from:\n%s", want, errs.String())
		}
	}
}
