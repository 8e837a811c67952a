package seeds

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier"
)

// readSeeds reads a file with this content. It returns the seeds and the faults of the
// file.
func readSeeds(t *testing.T, content []byte) (seeds, faults []string, end error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "seeds")
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), nil, name, nil)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	for {
		line, err := r.Next()
		var fault *LineError
		switch {
		case errors.Is(err, io.EOF):
			return seeds, faults, nil
		case errors.As(err, &fault):
			faults = append(faults, strings.TrimPrefix(fault.Error(), name))
		case err != nil:
			return seeds, faults, err
		default:
			seeds = append(seeds, line.Text+" "+strings.TrimPrefix(line.Source, name))
		}
	}
}

func TestSeedFile(t *testing.T) {
	long := strings.Repeat("x", maxLine+10)
	for content, want := range map[string]struct{ seeds, faults string }{
		"":                             {"", ""},
		"a":                            {"a :1", ""},
		"a\nb\n":                       {"a :1|b :2", ""},
		"\ufeffa\r\n\r\n b \r\n#c\r\n": {"a :1|b :3", ""},
		"# only a comment":             {"", ""},
		"a\n\xff\xfe\nb":               {"a :1|b :3", ":2: not UTF-8"},
		"a\n" + long + "\nb":           {"a :1|b :3", ":2: longer than 65536 bytes"},
		long:                           {"", ":1: longer than 65536 bytes"},
	} {
		seeds, faults, err := readSeeds(t, []byte(content))
		if err != nil || strings.Join(seeds, "|") != want.seeds || strings.Join(faults, "|") != want.faults {
			t.Errorf("%.40q: seeds %q, faults %q, error %v; want seeds %q, faults %q", content, seeds, faults, err, want.seeds, want.faults)
		}
	}
}

func TestInvalidSeedFiles(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, "http://a.test/\nhttp://b.test/\n")
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if seeds, _, err := readSeeds(t, packed.Bytes()); err != nil || len(seeds) != 2 {
		t.Errorf("gzip file: seeds %q, error %v, want 2 seeds", seeds, err)
	}
	for what, content := range map[string][]byte{
		"cut":     packed.Bytes()[:packed.Len()-6],
		"damaged": append(bytes.Clone(packed.Bytes()[:packed.Len()-8]), "12345678"...),
		"binary":  []byte("\x7fELF\x00\x00"),
		"UTF-16":  []byte("h\x00t\x00t\x00p\x00"),
	} {
		if seeds, _, err := readSeeds(t, content); err == nil {
			t.Errorf("%s file: seeds %q and no error, want an error", what, seeds)
		}
	}
}

// TestSeedsInFlatMemory: the heap grows by less than 1 MiB while a million lines are
// read.
func TestSeedsInFlatMemory(t *testing.T) {
	lines := 1_000_000
	if testing.Short() {
		lines = 100_000
	}
	n := 0
	source := readerFunc(func(p []byte) (int, error) {
		if n == lines {
			return 0, io.EOF
		}
		n++
		return copy(p, fmt.Appendf(nil, "http://h%d.test/page/%d\n", n%1000, n)), nil
	})
	r, err := Open(t.Context(), nil, "-", source)
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range lines {
		if _, err := r.Next(); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
	}
	if grown := int64(heap()) - int64(before); grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes over %d lines, want less than 1 MiB", grown, lines)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("next after the last line: %v, want io.EOF", err)
	}
}

// seedFunc is an Adder. Both of its methods call the function.
type seedFunc func(seeds []string) ([]crawl.SeedAnswer, error)

func (f seedFunc) Seed(_ context.Context, seeds []string) ([]crawl.SeedAnswer, error) {
	return f(seeds)
}
func (f seedFunc) SeedChecked(_ context.Context, seeds []string) ([]crawl.SeedAnswer, error) {
	return f(seeds)
}

// TestSeedsOfASlowPipe: seeds from a pipe are offered before the next line is read.
func TestSeedsOfASlowPipe(t *testing.T) {
	out, in := io.Pipe()
	r, err := Open(t.Context(), nil, "-", out)
	if err != nil {
		t.Fatal(err)
	}
	offered := make(chan []string)
	go func() {
		_, _ = Add(t.Context(), r, seedFunc(func(seeds []string) ([]crawl.SeedAnswer, error) {
			offered <- seeds
			return make([]crawl.SeedAnswer, len(seeds)), nil
		}), io.Discard)
		close(offered)
	}()
	for _, line := range []string{"http://a.test/", "http://b.test/"} {
		fmt.Fprintln(in, line) // the pipe stays open, so the line must not wait for the next one
		if got := <-offered; len(got) != 1 || got[0] != line {
			t.Errorf("offered %q, want %q", got, line)
		}
	}
	_ = in.Close()
	if got, more := <-offered; more {
		t.Errorf("offered %q after the pipe was closed, want nothing", got)
	}
}

func FuzzSeedFile(f *testing.F) {
	f.Add([]byte("\ufeffhttp://a/\r\n#x\n\xff\n"))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, content []byte) {
		seeds, faults, err := readSeeds(t, content)
		if lines := bytes.Count(content, []byte{'\n'}) + 1; err == nil && !bytes.HasPrefix(content, []byte{0x1f, 0x8b}) && len(seeds)+len(faults) > lines {
			t.Errorf("%d seeds and %d faults from %d lines, want at most one for each line", len(seeds), len(faults), lines)
		}
		for _, seed := range seeds {
			if text, _, _ := strings.Cut(seed, " :"); text != strings.TrimSpace(text) || strings.Contains(text, "\n") {
				t.Errorf("seed %q, want none with blanks at its ends or with a newline", seed)
			}
		}
	})
}

// TestSeedsOutliveAnOutage: seeds wait for a store that is unavailable. They stay in
// order, and none is counted twice.
func TestSeedsOutliveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var got []string
		offer := seedFunc(func(seeds []string) ([]crawl.SeedAnswer, error) {
			if time.Since(begun) < time.Hour {
				return nil, fmt.Errorf("%w: connection refused", frontier.ErrUnavailable)
			}
			got = append(got, seeds...)
			replies := make([]crawl.SeedAnswer, len(seeds))
			for i := range replies {
				replies[i].Answer = frontier.Added.String()
			}
			return replies, nil
		})
		var stderr strings.Builder
		counts, err := Add(t.Context(), &Reader{args: []string{"http://a.test/", "http://b.test/"}}, offer, &stderr)
		if err != nil || counts.Added != 2 || !slices.Equal(got, []string{"http://a.test/", "http://b.test/"}) {
			t.Errorf("after the outage: offered %q, counts %+v, error %v; want both seeds added once", got, counts, err)
		}
		if n := strings.Count(stderr.String(), "seeds wait"); n != 1 {
			t.Errorf("stderr says %d times that seeds wait, want once:\n%s", n, stderr.String())
		}
		begun = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := Add(ctx, &Reader{args: []string{"http://c.test/"}}, offer, &stderr); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Add after the end of ctx = %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// away is a store. After it has marked its first URL, it is unavailable until the time
// away.until.
type away struct {
	until time.Time
	known []string
}

func (a *away) MarkSeen(_ context.Context, urls []string) (fresh int, faults []error, err error) {
	for _, u := range urls {
		if len(a.known) == 1 && time.Now().Before(a.until) {
			return fresh, nil, fmt.Errorf("%w: connection refused", frontier.ErrUnavailable)
		}
		if !slices.Contains(a.known, u) {
			a.known = append(a.known, u)
			fresh++
		}
	}
	return fresh, make([]error, len(urls)), nil
}

// TestKnownOutlivesAnOutage: the URLs of --known wait for a store that is unavailable,
// even if some of them were marked before the outage.
func TestKnownOutlivesAnOutage(t *testing.T) {
	name := filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(name, []byte("http://a.test/\nhttp://b.test/\nhttp://a.test/\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		store := &away{until: time.Now().Add(time.Hour)}
		var stderr strings.Builder
		r, err := Open(t.Context(), nil, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		known, err := MarkSeen(t.Context(), r, store, &stderr)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"http://a.test/", "http://b.test/"}; !slices.Equal(store.known, want) {
			t.Errorf("URLs marked as known: %q, want %q", store.known, want)
		}
		if n := strings.Count(stderr.String(), "known URLs wait"); n != 1 {
			t.Errorf("stderr says %d times that URLs wait, want once:\n%s", n, stderr.String())
		}
		if want := (Known{URLs: 3, Fresh: 2}); known != want {
			t.Errorf("MarkSeen = %+v, want %+v", known, want)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
