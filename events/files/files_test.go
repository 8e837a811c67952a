package files_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/events/files"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

var (
	_     = flag.Uint64("seed", 0, "replay random tests with this seed") // read by bloomtest.Seed
	proof = flag.Bool("proof", false, "random tests at full size")
)

// crawl is a crawl in a directory, without the parts that an outbox does not need.
type crawl struct {
	t      testing.TB
	cfg    record.Config
	files  *record.Files
	mu     sync.Mutex
	commit frontier.Position
}

func newCrawl(t testing.TB, cfg record.Config) *crawl {
	cfg.Dir = t.TempDir()
	c := &crawl{t: t, cfg: cfg}
	c.open()
	t.Cleanup(func() { _ = c.files.Close() })
	return c
}

func (c *crawl) open() {
	files, err := record.Open(c.cfg, c.commit)
	if err != nil {
		c.t.Fatal(err)
	}
	c.files = files
}

func (c *crawl) end(context.Context) (frontier.Position, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(frontier.Position{}, c.commit...), nil
}

func (c *crawl) write(records ...*record.Record) error {
	for i, r := range records {
		if err := c.files.Append(r); err != nil {
			return err
		}
		if i%3 < 2 && i < len(records)-1 {
			continue
		}
		position, err := c.files.Sync()
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.commit = position
		c.mu.Unlock()
	}
	return nil
}

func (c *crawl) outbox() *files.Outbox {
	o := files.New(files.Config{Dir: c.cfg.Dir, Source: events.Source("test"), End: c.end})
	c.t.Cleanup(func() { _ = o.Close() })
	return o
}

func TestOutbox(t *testing.T) {
	for name, cfg := range map[string]record.Config{
		"one file": {}, "rotated": {RotateBytes: 2000}, "packed": {RotateBytes: 2000, Compress: true},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.RunOutbox(t, func(t *testing.T) eventstest.OutboxUnderTest {
				c := newCrawl(t, cfg)
				return eventstest.OutboxUnderTest{Outbox: c.outbox(), Commit: c.write, Reopen: func() events.Outbox { return c.outbox() }}
			})
		})
	}
}

// TestWhileWriting reads the outbox while the crawl writes, rotates and packs files, and
// crashes. Each committed record is read, in order, even if a new outbox continues at an
// earlier cursor.
func TestWhileWriting(t *testing.T) {
	seed := bloomtest.Seed(t)
	c := newCrawl(t, record.Config{RotateBytes: 3000, Compress: true})
	const n = 3000
	done := make(chan struct{})
	go func() {
		defer close(done)
		rng := rand.New(rand.NewPCG(seed, 1))
		for at := 0; at < n; {
			if rng.IntN(20) == 0 { // a crash: the lines after the committed end are lost
				for i := range rng.IntN(5) {
					_ = c.files.Append(eventstest.Record(9000+i, 4))
				}
				_, _ = c.files.Sync()
				_ = c.files.Close()
				c.open()
			}
			step := min(1+rng.IntN(30), n-at)
			var all []*record.Record
			for i := range step {
				all = append(all, eventstest.Record(at+i, 4))
			}
			if err := c.write(all...); err != nil {
				t.Error(err)
				return
			}
			at += step
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 2))
	o, at, next := c.outbox(), events.Cursor(""), 0
	for ended := false; ; {
		got, after, err := o.Read(t.Context(), at, 1+rng.IntN(100))
		if err != nil {
			t.Fatal(err)
		}
		if ended && len(got) == 0 && after == at {
			break
		}
		for _, e := range got {
			if want := eventstest.Event(next, 4).ID; e.ID != want {
				t.Fatalf("event %d is %s, want %s", next, e.ID, want)
			}
			next++
		}
		if at = after; len(got) > 0 && rng.IntN(5) == 0 { // read again from the middle
			i := rng.IntN(len(got))
			at, next, o = got[i].Cursor, next-len(got)+i+1, c.outbox()
		}
		if _, err := o.Lag(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			ended = true
		default:
		}
	}
	if next != n {
		t.Errorf("read %d events, want %d", next, n)
	}
}

// TestGone: if a file is missing and was not delivered completely, the error names the
// missing range. The error for a crawl that has lost its last lines names the range too.
func TestGone(t *testing.T) {
	c := newCrawl(t, record.Config{RotateBytes: 1500})
	var all []*record.Record
	for i := range 40 {
		all = append(all, eventstest.Record(i, 4))
	}
	if err := c.write(all...); err != nil {
		t.Fatal(err)
	}
	everything, end, err := c.outbox().Read(t.Context(), "", 100)
	if err != nil || len(everything) != 40 {
		t.Fatal(len(everything), err)
	}
	byFile := make(map[string][]events.Event)
	for _, e := range everything {
		file, _, _ := strings.Cut(string(e.Cursor), "-")
		byFile[file] = append(byFile[file], e)
	}
	for _, n := range []string{"2", "3"} {
		if err := os.Remove(filepath.Join(c.cfg.Dir, "pages-00000"+n+".jsonl")); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(at events.Cursor, want string) {
		t.Helper()
		o := c.outbox()
		got, next, err := o.Read(t.Context(), at, 100)
		if err == nil {
			_, _, err = o.Read(t.Context(), next, 100)
		}
		e, is := errors.AsType[*events.GoneError](err)
		if !is || !strings.HasSuffix(e.Range, want) {
			t.Errorf("Read after %q: %d events, then error %v; want a *GoneError that names %q", at, len(got), err, want)
		}
	}
	gone("", "pages-000002.jsonl from byte 0 to the end of pages-000003.jsonl")
	middle := byFile["2"][0].Cursor
	gone(middle, fmt.Sprintf("pages-000002.jsonl from byte %s to the end of pages-000003.jsonl", strings.TrimPrefix(string(middle), "2-")))
	gone("3-0", "pages-000003.jsonl from byte 0")
	if rest, _, err := c.outbox().Read(t.Context(), "4-0", 100); err != nil || rest[0].ID != byFile["4"][0].ID {
		t.Errorf("Read after the missing range: error %v, want none", err)
	}
	active := c.commit[0].Length
	c.commit[0].Length -= 10
	gone(end, fmt.Sprintf("pages.jsonl from byte %d to %d", active-10, active))
	c.commit[0].Length += 1000
	gone(end, fmt.Sprintf("pages.jsonl from byte %d to %d", active, active+990))
	c.commit[0].Length -= 990
	file, _, _ := strings.Cut(string(end), "-")
	after := fmt.Sprintf(" from %s-%d, where the records end, to the cursor 9-1", file, active)
	gone("9-1", after)
	if _, err := c.outbox().Lag(t.Context(), "9-1"); err == nil || !strings.Contains(err.Error(), after) {
		t.Errorf("Lag after 9-1: error %v, want one that names %q", err, after)
	}
}

// TestDirWithPattern: characters such as * and [ have no special meaning in the name of the
// directory. Find with an earlier time than the records returns a cursor before all of
// them. Find with a later time returns a cursor after them.
func TestDirWithPattern(t *testing.T) {
	for name, cfg := range map[string]record.Config{"plain": {RotateBytes: 1}, "packed": {RotateBytes: 1, Compress: true}} {
		t.Run(name, func(t *testing.T) {
			c := &crawl{t: t, cfg: cfg}
			c.cfg.Dir = filepath.Join(t.TempDir(), "news[2024]*?.crawl")
			c.open()
			now := time.Now().UTC()
			for i := range 3 { // each record is in a file of its own
				r := eventstest.Record(i, 1)
				r.FetchedAt = now
				if err := c.write(r); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.files.Close(); err != nil {
				t.Fatal(err)
			}
			o := c.outbox()
			for want, from := range map[int]time.Time{3: now.Add(-time.Hour), 0: now.Add(time.Hour)} {
				at, err := o.Find(t.Context(), from)
				if err != nil {
					t.Fatal(err)
				}
				if got, _, err := o.Read(t.Context(), at, 10); err != nil || len(got) != want {
					t.Errorf("Read after the cursor of %v, %q: %d events, %v; want %d", from, at, len(got), err, want)
				}
			}
		})
	}
}

// TestLagMore: a call of Lag that does not count all lines sets More. The next call
// continues, even if the cursor has moved.
func TestLagMore(t *testing.T) {
	c := newCrawl(t, record.Config{RotateBytes: 1500})
	var all []*record.Record
	for i := range 40 {
		all = append(all, eventstest.Record(i, 4))
	}
	if err := c.write(all...); err != nil {
		t.Fatal(err)
	}
	o := c.outbox()
	whole, err := c.outbox().Lag(t.Context(), "")
	if err != nil || whole.Events != 40 || whole.More {
		t.Fatalf("Lag without a limit = %+v, %v; want 40 events, all counted", whole, err)
	}
	first, _, err := o.Read(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	o.CountAtMost(whole.Bytes / 2)
	for i, want := range []events.Lag{{Events: 20, More: true}, {Events: 39}} {
		at := []events.Cursor{"", first[0].Cursor}[i]
		got, err := o.Lag(t.Context(), at)
		if err != nil || got.More != want.More || got.Events < want.Events || got.Events > want.Events+1 || got.Bytes == 0 || got.Oldest.IsZero() {
			t.Errorf("call %d of Lag = %+v, %v; want %+v, or one event more", i+1, got, err, want)
		}
	}
}

// TestOldLine: the error for a line without a fingerprint wraps ErrNoFingerprint, and has the
// place of the line.
func TestOldLine(t *testing.T) {
	c := newCrawl(t, record.Config{})
	old := eventstest.Record(1, 1)
	old.Item = bloomstore.Fingerprint{}
	if err := c.write(eventstest.Record(0, 1), old); err != nil {
		t.Fatal(err)
	}
	o := c.outbox()
	got, at, err := o.Read(t.Context(), "", 10)
	if err != nil || len(got) != 1 {
		t.Fatalf("Read returned %d events, error %v; want the one before the old line", len(got), err)
	}
	if _, _, err := o.Read(t.Context(), at, 10); !errors.Is(err, events.ErrNoFingerprint) || !strings.Contains(err.Error(), "byte "+strings.TrimPrefix(string(at), "1-")) {
		t.Errorf("Read of the old line: %v, want ErrNoFingerprint with the place %q", err, at)
	}
}

// FuzzCursor: if there is nothing to read, Read returns the cursor that it was given, unless that
// is empty. A damaged cursor causes an error and not a panic.
func FuzzCursor(f *testing.F) {
	for _, text := range []string{"", "1-0", "3-1048576+1-5+2-0", "0-1", "1-00", "1-5+1-5", "+1-1", "1-1+", "99999999999-1", "-1--1"} {
		f.Add(text)
	}
	o := files.New(files.Config{Dir: f.TempDir(), Source: "urn:crawler:x", End: func(context.Context) (frontier.Position, error) {
		return frontier.Position{{File: "pages.jsonl"}}, nil
	}})
	f.Fuzz(func(t *testing.T, text string) {
		_, next, err := o.Read(t.Context(), events.Cursor(text), 1)
		if err == nil && text != "" && string(next) != text {
			t.Errorf("Read after the cursor %q, with nothing to read, returned the cursor %q, want the same", text, next)
		}
	})
}

// BenchmarkRead measures reading the outbox of an embedded crawl.
func BenchmarkRead(b *testing.B) {
	for name, cfg := range map[string]record.Config{"plain": {}, "packed": {RotateBytes: 2 << 20, Compress: true}} {
		b.Run("files="+name, func(b *testing.B) {
			c := newCrawl(b, cfg)
			eventstest.BenchOutbox(b, eventstest.OutboxUnderTest{
				Outbox: c.outbox(), Commit: c.write, Reopen: func() events.Outbox { return c.outbox() },
			}, 20_000)
		})
	}
}

// TestRun runs a relay with the outbox and the progress of this package.
func TestRun(t *testing.T) {
	c := newCrawl(t, record.Config{RotateBytes: 3000, Compress: true})
	var all []*record.Record
	for i := range 300 {
		all = append(all, eventstest.Record(i, 9))
	}
	if err := c.write(all...); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	got := 0
	sink := sinkFunc(func(events.Event) { mu.Lock(); got++; mu.Unlock() })
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := events.Run(ctx, events.Config{Name: "r", Outbox: c.outbox(), Sink: sink, Progress: files.NewProgress(c.cfg.Dir)}, true)
		if cancel(); err != nil {
			t.Fatal(err)
		}
	}
	if got != 300 {
		t.Errorf("two runs delivered %d events, want 300", got)
	}
}

type sinkFunc func(events.Event)

func (f sinkFunc) Send(_ context.Context, all []events.Event) []error {
	for _, e := range all {
		f(e)
	}
	return make([]error, len(all))
}

func (sinkFunc) Close() error { return nil }
