package files_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/events/files"
)

func TestProgress(t *testing.T) {
	eventstest.RunProgress(t, func(t *testing.T) eventstest.ProgressUnderTest {
		dir := t.TempDir()
		return eventstest.ProgressUnderTest{
			Progress: files.NewProgress(dir), Reopen: func() events.Progress { return files.NewProgress(dir) },
			EndHold: func(name string) { // the lock is removed
				if err := os.Remove(filepath.Join(dir, "relays", name, "run.lock")); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// TestProgressNames: names that could be paths are refused.
func TestProgressNames(t *testing.T) {
	p := files.NewProgress(t.TempDir())
	for _, name := range []string{"", "..", "../x", "a/b", ".x", strings.Repeat("x", 65)} {
		if err := eventstest.Save(t.Context(), p, name, "1-0", nil); err == nil {
			t.Errorf("Save with the name %q: no error", name)
		}
		if _, err := p.Acquire(t.Context(), name); err == nil || errors.Is(err, events.ErrLocked) {
			t.Errorf("Lock(%q): %v, want an error other than ErrLocked", name, err)
		}
	}
}

// TestNamesOfRelays: Names returns the relays that have a cursor, whatever the name of the
// directory is. It returns an error if it cannot read the directory.
func TestNamesOfRelays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "news[2024]*?.crawl")
	p := files.NewProgress(dir)
	if names, err := p.Names(t.Context()); len(names) > 0 || err != nil {
		t.Errorf("Names before the first relay = %q, %v; want none", names, err)
	}
	hold, err := p.Acquire(t.Context(), "c") // has no cursor
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hold.Release(t.Context()) }()
	for _, name := range []string{"b", "a"} {
		if err := eventstest.Save(t.Context(), p, name, "1-0", nil); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := p.Names(t.Context()); !slices.Equal(names, []string{"a", "b"}) || err != nil {
		t.Errorf("Names = %q, %v; want a and b", names, err)
	}
	noDir := t.TempDir()
	if err := os.WriteFile(filepath.Join(noDir, "relays"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if names, err := files.NewProgress(noDir).Names(t.Context()); err == nil {
		t.Errorf("Names of a file that is not a directory = %q, no error", names)
	}
}

// TestProgressLockFails: if a lock file cannot be opened, Lock and Save return an error at
// once. The error of Lock is not ErrLocked.
func TestProgressLockFails(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"run.lock", "save.lock"} {
		if err := os.MkdirAll(filepath.Join(dir, "relays", "r", name), 0o700); err != nil { // cannot be opened for writing
			t.Fatal(err)
		}
	}
	p := files.NewProgress(dir)
	if _, err := p.Acquire(t.Context(), "r"); err == nil || errors.Is(err, events.ErrLocked) {
		t.Errorf("Lock with a file that cannot be opened: %v, want an error other than ErrLocked", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := eventstest.Save(ctx, p, "r", "1-0", nil); err == nil || ctx.Err() != nil {
		t.Errorf("Save with a file that cannot be opened: %v, want an error at once", err)
	}
}

// TestProgressForm: the format of the files does not change by accident. Save overwrites
// bytes that a crash has left at the end of the file of dead letters.
func TestProgressForm(t *testing.T) {
	dir := t.TempDir()
	p := files.NewProgress(dir)
	e := eventstest.Event(1, 1)
	letter := []events.DeadLetter{{Event: e, Reason: "422", At: e.Time}}
	if err := eventstest.Save(t.Context(), p, "r", "1-5", letter); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, "relays", "r", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	form := regexp.MustCompile(`^\{"format":1,"cursor":"1-5","at":"[^"]+Z","dead":1,"letters":1,"letter_bytes":(\d+),"term":1\}\n$`)
	parts := form.FindStringSubmatch(read("cursor.json"))
	text, err := e.AppendJSON(nil)
	want := fmt.Sprintf(`{"event":%s,"reason":"422","at":"2027-01-15T08:00:00.01Z"}`+"\n", text)
	if got := read("dead-1.jsonl"); err != nil || got != want || parts == nil || parts[1] != fmt.Sprint(len(want)) {
		t.Fatalf("cursor.json is %s\nthe file of letters is %s, want %s", read("cursor.json"), got, want)
	}
	f, err := os.OpenFile(filepath.Join(dir, "relays", "r", "dead-1.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"event":{"spec`)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if letters, err := p.Dead(t.Context(), "r"); err != nil || len(letters) != 1 {
		t.Errorf("%d dead letters, %v, want 1", len(letters), err)
	}
	if err := eventstest.Save(t.Context(), p, "r", "1-6", letter); err != nil {
		t.Fatal(err)
	}
	if letters, err := p.Dead(t.Context(), "r"); err != nil || len(letters) != 2 || read("dead-1.jsonl") != want+want {
		t.Errorf("%d dead letters, %v, want 2", len(letters), err)
	}
}

// TestProgressAtOnce: while a relay saves, a command discards dead letters. No other dead
// letter and no cursor is lost.
func TestProgressAtOnce(t *testing.T) {
	dir := t.TempDir()
	relay, command := files.NewProgress(dir), files.NewProgress(dir)
	const n = 60
	var removed int
	var wait sync.WaitGroup
	wait.Go(func() {
		for i := range n {
			e := eventstest.Event(i, 3)
			if err := eventstest.Save(t.Context(), relay, "r", events.Cursor(fmt.Sprint(i)), []events.DeadLetter{{Event: e, At: e.Time}}); err != nil {
				t.Error(err)
			}
		}
	})
	wait.Go(func() {
		for i := 0; i < n; i += 2 {
			one, err := command.Discard(t.Context(), "r", eventstest.Event(i, 3).ID)
			if err != nil {
				t.Error(err)
			}
			removed += one
			if _, err := command.Dead(t.Context(), "r"); err != nil {
				t.Error(err)
			}
		}
	})
	wait.Wait()
	letters, err := files.NewProgress(dir).Dead(t.Context(), "r")
	saved, _, _ := relay.Load(t.Context(), "r")
	if err != nil || len(letters)+removed != n || saved.Cursor != events.Cursor(fmt.Sprint(n-1)) {
		t.Errorf("%d letters are left and %d were removed, want %d together; cursor %q, want %d; error %v", len(letters), removed, n, saved.Cursor, n-1, err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "relays", "r", "dead-*"))
	if len(left) != 1 {
		t.Errorf("files of letters: %q, want one", left)
	}
}
