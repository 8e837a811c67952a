package eventstest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/events"
)

// ProgressUnderTest is an events.Progress, and what the tests need besides.
type ProgressUnderTest struct {
	events.Progress
	// Reopen opens the same progress again, as another process would.
	Reopen func() events.Progress
	// EndHold ends the hold of a name in the storage, so that the caller that has the hold does
	// not know that it has ended: as if its session had ended, or as if it had been suspended
	// until its lease was over.
	EndHold func(name string)
}

// RunProgress tests the contract of events.Progress. Each call of the function open must
// return a new, empty progress.
func RunProgress(t *testing.T, open func(t *testing.T) ProgressUnderTest) {
	for name, test := range map[string]func(t *testing.T, p ProgressUnderTest){
		"Saved": savedProgress, "Letters": savedLetters, "TwoHolders": twoHolders, "Takeover": takenOver,
		"StaleTerm": staleTerm, "Racers": racingHolders,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Save acquires the name of a relay, saves a cursor and dead letters, and releases the name.
func Save(ctx context.Context, p events.Progress, name string, cursor events.Cursor, letters []events.DeadLetter) error {
	hold, err := p.Acquire(ctx, name)
	if err != nil {
		return err
	}
	return errors.Join(hold.Save(ctx, cursor, letters), hold.Release(ctx))
}

func cursorOf(t *testing.T, p events.Progress, name string) (events.Saved, bool) {
	t.Helper()
	saved, known, err := p.Load(t.Context(), name)
	if err != nil {
		t.Fatalf("Load %q: %v", name, err)
	}
	return saved, known
}

func savedProgress(t *testing.T, p ProgressUnderTest) {
	if names, err := p.Names(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("Names of an empty progress = %q, %v; want none", names, err)
	}
	if saved, known := cursorOf(t, p, "a"); known || saved.Cursor != "" {
		t.Errorf("Load of a name that was never saved: known, %+v; want it unknown", saved)
	}
	for _, cursor := range []events.Cursor{"", "1", "1:22", "1:9"} {
		for _, name := range []string{"a", "b.c-D_1"} {
			must(t, Save(t.Context(), p, name, cursor+events.Cursor(name), nil))
			for _, p := range []events.Progress{p, p.Reopen()} {
				if saved, known := cursorOf(t, p, name); !known || saved.Cursor != cursor+events.Cursor(name) || saved.Dead != 0 || saved.At.IsZero() {
					t.Errorf("Load of %q = %+v, known %v; want cursor %q, no dead letters and a time", name, saved, known, cursor)
				}
			}
		}
	}
	if names, err := p.Reopen().Names(t.Context()); err != nil || !slices.Equal(names, []string{"a", "b.c-D_1"}) {
		t.Errorf("Names = %q, %v; want a and b.c-D_1", names, err)
	}
}

func savedLetters(t *testing.T, p ProgressUnderTest) {
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
		must(t, Save(t.Context(), p, "a", "c", letters))
		must(t, Save(t.Context(), p, "b", "c", letters[:1]))
	}
	check := func(want []string) {
		t.Helper()
		for _, p := range []events.Progress{p, p.Reopen()} {
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
	if n, err := p.Reopen().Discard(t.Context(), "a", want[0], want[4], "unknown"); err != nil || n != 2 {
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
	must(t, Save(t.Context(), p, "a", "c", []events.DeadLetter{{Event: more, Reason: "x", At: more.Time}}))
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
	for _, ids := range [][]string{{id, discarded}, nil} {
		want := cmp.Or(min(len(ids), 1), len(letters))
		n, err := p.Resend(t.Context(), "a", ids...)
		if saved, _ := cursorOf(t, p, "a"); err != nil || n != want || saved.Resend != uint64(want) {
			t.Errorf("Resend of %q = %d, %v, and %d are marked; want %d", ids, n, err, saved.Resend, want)
		}
	}
	letters[i].Reason = "still\x00not"
	gone := letters[i]
	gone.Event.ID = discarded
	must(t, p.Revise(t.Context(), "a", []events.DeadLetter{letters[i], gone}))
	again, err := p.Dead(t.Context(), "a")
	if saved, _ := cursorOf(t, p, "a"); err == nil && (saved.Resend != uint64(len(letters)-1) || again[i].Resend) {
		t.Errorf("after Revise %d letters are marked, want all but that one of %d", saved.Resend, len(letters))
	}
	if err != nil || len(again) != len(letters) || strings.ReplaceAll(again[i].Reason, "\x00", "") != "stillnot" {
		t.Errorf("after Revise there are %d letters (%v), want %d; one is %+v, want its new reason", len(again), err, len(letters), again[i])
	}
}

// acquire acquires a name that is free.
func acquire(t *testing.T, p events.Progress, name string) events.Hold {
	t.Helper()
	hold, err := p.Acquire(t.Context(), name)
	must(t, err)
	return hold
}

// renewing renews a hold again and again until stop is called, as a relay that runs does.
func renewing(hold events.Hold) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var renewals sync.WaitGroup
	renewals.Go(func() {
		for ctx.Err() == nil {
			_, _ = hold.Renew(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	return func() { cancel(); renewals.Wait() }
}

// twoHolders: a name has one holder. It is free as soon as it was released. A name that was
// acquired but never saved is not registered.
func twoHolders(t *testing.T, p ProgressUnderTest) {
	hold := acquire(t, p, "a")
	if lasts, err := hold.Renew(t.Context()); err != nil || lasts <= 0 {
		t.Errorf("Renew of a new hold = %v, %v; want a time", lasts, err)
	}
	stop := renewing(hold)
	for _, p := range []events.Progress{p, p.Reopen()} {
		if _, err := p.Acquire(t.Context(), "a"); !errors.Is(err, events.ErrLocked) {
			t.Errorf("Acquire of a name that is held: %v, want ErrLocked", err)
		}
	}
	stop()
	must(t, acquire(t, p.Reopen(), "b").Release(t.Context()))
	if names, err := p.Names(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("Names after Acquire = %q, %v; want none, because nothing was saved", names, err)
	}
	if _, known := cursorOf(t, p, "a"); known {
		t.Error("Load after Acquire: the name is known, although nothing was saved")
	}
	must(t, hold.Save(t.Context(), "1", nil))
	must(t, hold.Release(t.Context()))
	again := acquire(t, p.Reopen(), "a")
	if again.Term() <= hold.Term() || hold.Term() < 1 {
		t.Errorf("the terms are %d and %d, want growing terms from 1", hold.Term(), again.Term())
	}
	must(t, again.Release(t.Context()))
}

// takenOver: another caller acquires the name of a holder that does not know of it. The new
// holder begins where the old one has saved.
func takenOver(t *testing.T, p ProgressUnderTest) {
	old := acquire(t, p, "a")
	must(t, old.Save(t.Context(), "1", nil))
	for n := range 3 {
		p.EndHold("a")
		next := acquire(t, p.Reopen(), "a")
		if next.Term() <= old.Term() {
			t.Errorf("after takeover %d the term is %d, want more than %d", n, next.Term(), old.Term())
		}
		if saved, known := cursorOf(t, p, "a"); !known || saved.Cursor != "1" {
			t.Errorf("after takeover %d the cursor is %q, known %v; want 1", n, saved.Cursor, known)
		}
		if _, err := old.Renew(t.Context()); !errors.Is(err, events.ErrSuperseded) {
			t.Errorf("Renew after takeover %d: %v, want ErrSuperseded", n, err)
		}
		old = next
	}
	must(t, old.Release(t.Context()))
}

// staleTerm: a holder that was superseded changes nothing: not the cursor, not the dead
// letters, and not the hold of its successor.
func staleTerm(t *testing.T, p ProgressUnderTest) {
	letters := []events.DeadLetter{{Event: Event(1, hosts), Reason: "no", At: Event(1, hosts).Time}}
	for _, registered := range []bool{false, true} {
		old := acquire(t, p, "a")
		p.EndHold("a")
		next := acquire(t, p.Reopen(), "a")
		want, known := cursorOf(t, p, "a")
		if known != registered {
			t.Fatalf("the name is known: %v, want %v", known, registered)
		}
		if err := old.Save(t.Context(), "7", letters); !errors.Is(err, events.ErrSuperseded) {
			t.Errorf("Save with an old term: %v, want ErrSuperseded", err)
		}
		if got, known := cursorOf(t, p, "a"); known != registered || got.Cursor != want.Cursor || got.Dead != 0 {
			t.Errorf("after Save with an old term: %+v, known %v; want nothing changed, %+v", got, known, want)
		}
		_ = old.Release(t.Context()) // it may say that it is superseded
		if err := next.Save(t.Context(), "3", nil); err != nil {
			t.Errorf("Save of the new holder, after Release of the old one: %v", err)
		}
		if err := old.Save(t.Context(), "8", letters); !errors.Is(err, events.ErrSuperseded) {
			t.Errorf("Save with an old term after a Save of the new holder: %v, want ErrSuperseded", err)
		}
		must(t, next.Release(t.Context()))
		if err := old.Save(t.Context(), "9", nil); !errors.Is(err, events.ErrSuperseded) {
			t.Errorf("Save with an old term, while the name is free: %v, want ErrSuperseded", err)
		}
		if got, _ := cursorOf(t, p, "a"); got.Cursor != "3" || got.Dead != 0 {
			t.Errorf("in the end: %+v; want the cursor of the new holder, 3, and no dead letters", got)
		}
	}
}

// racingHolders: of many callers that race for a free name, one gets it.
func racingHolders(t *testing.T, p ProgressUnderTest) {
	var winners atomic.Int32
	var racers sync.WaitGroup
	stops := make(chan func(), 8)
	for range 8 {
		racer := p.Reopen()
		racers.Go(func() {
			hold, err := racer.Acquire(t.Context(), "a")
			switch {
			case err == nil:
				winners.Add(1)
				stops <- renewing(hold)
			case !errors.Is(err, events.ErrLocked):
				t.Error(err)
			}
		})
	}
	racers.Wait()
	close(stops)
	for stop := range stops {
		stop()
	}
	if n := winners.Load(); n != 1 {
		t.Errorf("%d of 8 racers acquired the name, want 1", n)
	}
}
