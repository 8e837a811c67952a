package eventstest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/events"
)

// RunProgress tests the contract of events.Progress. Each call of the function open must
// return a new, empty progress. The function reopen must open the same progress again, as
// another process would.
func RunProgress(t *testing.T, open func(t *testing.T) (p events.Progress, reopen func() events.Progress)) {
	for name, test := range map[string]func(t *testing.T, p events.Progress, reopen func() events.Progress){
		"Saved": savedProgress, "Letters": savedLetters, "Lock": lockedProgress,
	} {
		t.Run(name, func(t *testing.T) {
			p, reopen := open(t)
			test(t, p, reopen)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func cursorOf(t *testing.T, p events.Progress, name string) (events.Saved, bool) {
	t.Helper()
	saved, known, err := p.Load(t.Context(), name)
	if err != nil {
		t.Fatalf("Load %q: %v", name, err)
	}
	return saved, known
}

func savedProgress(t *testing.T, p events.Progress, reopen func() events.Progress) {
	if names, err := p.Names(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("Names of an empty progress = %q, %v; want none", names, err)
	}
	if saved, known := cursorOf(t, p, "a"); known || saved.Cursor != "" {
		t.Errorf("Load of a name that was never saved: known, %+v; want it unknown", saved)
	}
	for _, cursor := range []events.Cursor{"", "1", "1:22", "1:9"} {
		for _, name := range []string{"a", "b.c-D_1"} {
			must(t, p.Save(t.Context(), name, cursor+events.Cursor(name), nil))
			for _, p := range []events.Progress{p, reopen()} {
				if saved, known := cursorOf(t, p, name); !known || saved.Cursor != cursor+events.Cursor(name) || saved.Dead != 0 || saved.At.IsZero() {
					t.Errorf("Load of %q = %+v, known %v; want cursor %q, no dead letters and a time", name, saved, known, cursor)
				}
			}
		}
	}
	if names, err := reopen().Names(t.Context()); err != nil || !slices.Equal(names, []string{"a", "b.c-D_1"}) {
		t.Errorf("Names = %q, %v; want a and b.c-D_1", names, err)
	}
}

func savedLetters(t *testing.T, p events.Progress, reopen func() events.Progress) {
	var want []string
	for n := range 10 {
		e := Event(n, hosts)
		letters := []events.DeadLetter{{Event: e, Reason: "no\nthanks", At: e.Time}}
		want = append(want, e.ID)
		if n%3 == 0 {
			e2 := Event(100+n, hosts)
			letters = append(letters, events.DeadLetter{Event: e2, Reason: "nor this", At: e2.Time})
			want = append(want, e2.ID)
		}
		must(t, p.Save(t.Context(), "a", "c", letters))
		must(t, p.Save(t.Context(), "b", "c", letters[:1]))
	}
	check := func(want []string) {
		t.Helper()
		for _, p := range []events.Progress{p, reopen()} {
			letters, err := p.Dead(t.Context(), "a")
			var got []string
			for _, l := range letters {
				got = append(got, l.Event.ID)
				back, err := events.FromRecord(l.Event.Source, l.Event.Data)
				if err != nil || back.ID != l.Event.ID || l.Reason == "" || !l.At.Equal(l.Event.Time) {
					t.Errorf("dead letter %+v (%v), want the data of its event, a reason and the event's time", l, err)
				}
			}
			if saved, known := cursorOf(t, p, "a"); err != nil || !slices.Equal(got, want) || !known || saved.Dead != uint64(len(want)) || saved.Cursor != "c" {
				t.Errorf("dead letters %q, progress %+v, error %v; want %q, as many in the progress, and cursor c", got, saved, err, want)
			}
		}
	}
	check(want)
	before, _ := cursorOf(t, p, "a")
	if n, err := reopen().Discard(t.Context(), "a", want[0], want[4], "unknown"); err != nil || n != 2 {
		t.Errorf("Discard of two letters = %d, %v; want 2", n, err)
	}
	discarded := want[0]
	want = append(want[1:4:4], want[5:]...)
	check(want)
	reviseLetters(t, p, want[1], discarded)
	check(want)
	if after, _ := cursorOf(t, p, "a"); !after.At.Equal(before.At) {
		t.Errorf("after changes of dead letters, the time of the cursor is %v, want the old one, %v", after.At, before.At)
	}
	more := Event(50, hosts)
	must(t, p.Save(t.Context(), "a", "c", []events.DeadLetter{{Event: more, Reason: "x", At: more.Time}}))
	want = append(want, more.ID)
	check(want)
	if n, err := p.Discard(t.Context(), "a"); err != nil || n != len(want) {
		t.Errorf("Discard of all letters = %d, %v; want %d", n, err, len(want))
	}
	check(nil)
	if letters, err := p.Dead(t.Context(), "b"); err != nil || len(letters) != 10 {
		t.Errorf("the other relay has %d dead letters, %v; want 10", len(letters), err)
	}
}

// reviseLetters calls Revise with two dead letters: the one with the given id, and one that
// was discarded before. It checks that the first one has its new reason, and that the
// discarded one is not stored again.
func reviseLetters(t *testing.T, p events.Progress, id, discarded string) {
	t.Helper()
	letters, err := p.Dead(t.Context(), "a")
	i := slices.IndexFunc(letters, func(l events.DeadLetter) bool { return l.Event.ID == id })
	if err != nil || i < 0 {
		t.Fatalf("dead letter %s is not among the %d letters (%v)", id, len(letters), err)
	}
	letters[i].Reason = "still\x00not"
	gone := letters[i]
	gone.Event.ID = discarded
	must(t, p.Revise(t.Context(), "a", []events.DeadLetter{letters[i], gone}))
	again, err := p.Dead(t.Context(), "a")
	if err != nil || len(again) != len(letters) || strings.ReplaceAll(again[i].Reason, "\x00", "") != "stillnot" {
		t.Errorf("after Revise there are %d letters (%v), want %d; one is %+v, want its new reason", len(again), err, len(letters), again[i])
	}
}

func lockedProgress(t *testing.T, p events.Progress, reopen func() events.Progress) {
	unlock, err := p.Lock(t.Context(), "a")
	must(t, err)
	for _, p := range []events.Progress{p, reopen()} {
		if _, err := p.Lock(t.Context(), "a"); !errors.Is(err, events.ErrLocked) {
			t.Errorf("Lock of a locked name: %v, want ErrLocked", err)
		}
	}
	other, err := reopen().Lock(t.Context(), "b")
	must(t, err)
	must(t, other())
	must(t, unlock())
	unlock, err = reopen().Lock(t.Context(), "a")
	must(t, err)
	must(t, unlock())
}
