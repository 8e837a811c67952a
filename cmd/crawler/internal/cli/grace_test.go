package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/fetcher"
)

// TestWithinGrace: a run that hangs after it was to end is left when --grace is
// over; one that ends gives its own error, and one that goes on has no limit.
func TestWithinGrace(t *testing.T) {
	errOwn := errors.New("its own")
	for _, c := range []struct {
		name        string
		grace, busy time.Duration // busy: what the run takes after its stop
		stopped     bool
		took        time.Duration
	}{
		{"ends", 30 * time.Second, 20 * time.Second, true, 20 * time.Second},
		{"hangs", 30 * time.Second, time.Hour, true, 30 * time.Second},
		{"hangs without grace", 0, time.Hour, true, leastGrace},
		{"goes on", time.Second, time.Hour, false, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &plan{options: &options{grace: c.grace}, place: inDirectory("x.crawl")}
				begun := time.Now()
				err := p.within(func() error {
					if c.stopped {
						p.ending.begin(p.grace)
						time.Sleep(c.busy / 2)
						p.ending.begin(p.grace) // a second signal gives no more time
						time.Sleep(c.busy - c.busy/2)
					} else {
						time.Sleep(c.busy)
					}
					return errOwn
				})
				if took := time.Since(begun); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				if left := c.busy > c.took; left == errors.Is(err, errOwn) || left && !strings.Contains(err.Error(), "x.crawl did not close within --grace") {
					t.Errorf("error %v", err)
				}
				time.Sleep(time.Hour) // until the run that was left has ended
			})
		})
	}
}

// endless is a store whose records have no end.
type endless struct {
	engine
	line []byte
}

func (e *endless) records(context.Context) (recordSource, error) {
	return endlessRecords{line: e.line}, nil
}

type endlessRecords struct {
	recordSource
	line []byte
}

func (e endlessRecords) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for yield(e.line, nil) {
		}
	}
}

// TestSeedsFileIsBoundedByGrace: a run that --max-time ends does not read its
// records for longer than --grace, and leaves the old seeds.jsonl.
func TestSeedsFileIsBoundedByGrace(t *testing.T) {
	o, cmd := new(options), new(cobra.Command)
	addSections(cmd, o.newFlags())
	dir := filepath.Join(t.TempDir(), "x.crawl")
	if err := cmd.ParseFlags([]string{"--dir", dir, "--max-time", "100ms", "--grace", "5s", "--dns", "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	seeds := []string{"http://a.test/"}
	p, err := o.resolve(t.Context(), cmd.Flags(), seeds)
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	ses, err := openSession(t.Context(), p, streams{in: strings.NewReader(""), out: io.Discard, err: &errs}, toCrawl)
	if err != nil {
		t.Fatal(err)
	}
	ses.store = &endless{ses.store, []byte(`{"url":"http://a.test/","id":"0123456789abcdef","outcome":"ok"}`)}
	const before = `{"url":"gopher://a.test/","why":"refused","pages":0,"urls":0,"waiting":0}` + "\n"
	if err := os.WriteFile(ses.seedsName(), []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := newSeedReader(t.Context(), nil, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.close()
	defer ses.crawl.Hold()() // nothing is left to fetch: wait for --max-time
	result, err := ses.work(t.Context(), reader, func() {}, newConsole(&errs))
	if err = errors.Join(err, ses.close()); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	if result.end != endTime || result.end == fetcher.Empty {
		t.Errorf("the run ended with %q, want %q", result.end, endTime)
	}
	after, err := os.ReadFile(ses.seedsName())
	if err != nil || string(after) != before {
		t.Errorf("seeds.jsonl is %q, %v, want what was there before", after, err)
	}
	if !strings.Contains(errs.String(), "seeds.jsonl is as old as before") {
		t.Errorf("nothing says that seeds.jsonl is old:\n%s", errs.String())
	}
}
