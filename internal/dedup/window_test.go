package dedup

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/suite"
)

const span = time.Minute

// windowed returns settings with a window: a filter or an exact set.
func windowed() []Settings {
	return []Settings{
		Settings{URLs: 2000, FPR: 1e-9, Window: human.Seconds(span)}.WithGenerations(),
		Settings{Exact: true, Window: human.Seconds(span)}.WithGenerations(),
	}
}

// model is what a map knows about the lines that a window printed.
type model struct {
	settings Settings
	printed  map[string]time.Time
	forgot   int
}

// want checks the answers to lines that were all read at one time.
func (m *model) check(t *testing.T, now time.Time, lines []string, out string) {
	t.Helper()
	printed := strings.SplitAfter(out, "\n")
	printed = printed[:len(printed)-1]
	kept := span + span/time.Duration(m.settings.Generations)
	for _, line := range lines {
		at, was := m.printed[line]
		age := now.Sub(at)
		isNew := len(printed) > 0 && printed[0] == line+"\n"
		if was && age <= span && isNew {
			t.Fatalf("%+v: %s of age %v is printed again within %v", m.settings, line, age, span)
		}
		if (!was || age > kept) && !isNew { // at a rate of 1e-9, chance is no excuse
			t.Fatalf("%+v: %s of age %v (known: %t) is not printed after %v", m.settings, line, age, was, kept)
		}
		if isNew {
			if was {
				m.forgot++
			}
			m.printed[line], printed = now, printed[1:]
		}
	}
	if len(printed) > 0 {
		t.Fatalf("printed %q, which is not expected", printed[0])
	}
}

// TestWindowModel runs streams with and without a directory at random times, and compares the lines
// that are printed with a map.
func TestWindowModel(t *testing.T) {
	rnd := random(t)
	for _, settings := range windowed() {
		for _, dir := range []string{"", filepath.Join(t.TempDir(), "seen")} {
			clock := suite.NewClock()
			m := &model{settings: settings, printed: make(map[string]time.Time)}
			runs := 1
			if dir != "" {
				runs = 40
			}
			for range runs {
				cfg := Config{Dir: dir, Settings: settings, now: clock.Now, interval: 300}
				cfg.LineKey = KeyRaw
				m.run(t, rnd, cfg, clock, 600/runs)
			}
			if m.forgot < 20 {
				t.Errorf("%+v: only %d lines were printed again", settings, m.forgot)
			}
			if dir == "" {
				continue
			}
			folders, _ := filepath.Glob(filepath.Join(dir, generationPrefix+"*"))
			if len(folders) > settings.Generations+1 || len(folders) < 2 {
				t.Errorf("%+v: %d folders of generations, want 2 to %d", settings, len(folders), settings.Generations+1)
			}
		}
	}
}

// run makes one run. It writes groups of lines to it, and moves the clock between them.
func (m *model) run(t *testing.T, rnd *rand.Rand, cfg Config, clock *suite.Clock, groups int) {
	t.Helper()
	in, feed := io.Pipe()
	out, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), cfg, in, writerTo(out), io.Discard)
		close(out)
		ended <- err
	}()
	for range groups {
		clock.Advance(time.Duration(rnd.Int64N(int64(span / 12))))
		if rnd.IntN(100) == 0 {
			clock.Advance(2 * span)
		}
		lines := []string{fmt.Sprintf("new %d", rnd.Uint64())} // one line is new for certain, and comes last
		for range rnd.IntN(5) {
			lines = append([]string{fmt.Sprintf("line %d", rnd.IntN(400))}, lines...)
		}
		if _, err := io.WriteString(feed, strings.Join(lines, "\n")+"\n"); err != nil {
			t.Fatal(err)
		}
		m.check(t, clock.Now(), lines, <-out)
	}
	feed.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

type writerTo chan string

func (w writerTo) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// TestWindowDamageIsRefused: a generation that is missing is not taken for an empty one.
func TestWindowDamageIsRefused(t *testing.T) {
	for _, settings := range windowed() {
		dir, clock := t.TempDir(), suite.NewClock()
		settings.LineKey = KeyRaw
		cfg := Config{Dir: dir, Settings: settings, now: clock.Now}
		for i := range 3 {
			mustDedup(t, fmt.Sprintf("line %d\n", i), cfg)
			clock.Advance(span / time.Duration(settings.Generations))
		}
		folders, err := filepath.Glob(filepath.Join(dir, generationPrefix+"*"))
		if err != nil || len(folders) != 3 {
			t.Fatalf("%v: the folders are %v", err, folders)
		}
		for _, name := range []string{folders[0], filepath.Join(folders[1], numbered(journalPrefix, 0, "")), filepath.Join(dir, generationsFile)} {
			if err := os.Rename(name, name+".away"); err != nil {
				t.Fatal(err)
			}
			if got, err := dedup(t.Context(), "line 0\n", cfg); !errors.Is(err, bloomstore.ErrFilterLost) {
				t.Errorf("%+v without %s: %v, printed %q, want ErrFilterLost", settings, filepath.Base(name), err, got.out)
			}
			if err := os.Rename(name+".away", name); err != nil {
				t.Fatal(err)
			}
		}
		if got := mustDedup(t, "line 0\nline 1\nline 2\n", cfg); got.out != "" {
			t.Errorf("%+v: printed %q again", settings, got.out)
		}
	}
}

// TestWindowKilledAtEachStep kills runs at each step of a rotation. The next run prints nothing
// again that was remembered within the window, and everything else.
func TestWindowKilledAtEachStep(t *testing.T) {
	for _, settings := range windowed() {
		settings.LineKey = KeyRaw
		for _, point := range []string{"begun", "half saved", "listed", "dropped", "remembered", "printed"} {
			// The child's first generation is its second call at "begun", "half saved" (with the card, the
			// third) and "listed", because creating the directory makes a generation, too.
			kills := 6
			if testing.Short() {
				kills = 2
			}
			for n := range kills {
				dir := filepath.Join(t.TempDir(), "seen")
				at := fmt.Sprintf("%s:%d", point, n+1)
				cfg := childConfig{Dir: dir, Settings: settings, Interval: 3, Step: span / time.Duration(settings.Generations)}
				cmd := childCommand(t, at, cfg)
				feed, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				var printed []string
				for i := range 12 { // each line is a group, and the clock of the child moves by a generation with each group
					line := fmt.Sprintf("line %d\n", i)
					if _, err := io.WriteString(feed, line); err != nil {
						break
					}
					got := make([]byte, len(line))
					if _, err := io.ReadFull(out, got); err != nil {
						break
					}
					printed = append(printed, line)
				}
				feed.Close()
				err = cmd.Wait()
				if point != "dropped" && err == nil {
					t.Errorf("%+v: the run was not killed at %s", settings, at)
				}
				// The next run is one generation after the last line: the killed run may have begun it.
				last := len(printed) - 1
				now := childStart.Add(time.Duration(last+1) * cfg.Step)
				next := Config{Dir: dir, Settings: settings, now: func() time.Time { return now }, interval: 3}
				got := mustDedup(t, strings.Join(printed, "")+"another\n", next)
				for i, line := range printed {
					again := strings.Contains(got.out, line)
					within := i >= last+1-settings.Generations
					mayRepeat := i == last && (point == "printed" || point == "half saved") // printed, but not remembered
					if within && again && !mayRepeat {
						t.Errorf("%+v, killed at %s: the next run prints %q again", settings, at, line)
					}
				}
				folders, _ := filepath.Glob(filepath.Join(dir, generationPrefix+"*"))
				if numbers, err := (&store{cfg: next}).generations(); err != nil || len(numbers) != len(folders) {
					t.Errorf("%+v, killed at %s: the folders %v are not the generations %v (%v)", settings, at, folders, numbers, err)
				}
				if !strings.Contains(got.out, "another\n") {
					t.Errorf("%+v, killed at %s: the next run does not print a new line", settings, at)
				}
			}
		}
	}
}
