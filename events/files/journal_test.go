package files_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/events/files"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// worker has the journal of one worker, and a model of the queue. The completion of a record
// is the call that tells the queue that the record's item is finished.
type worker struct {
	t       testing.TB
	rng     *rand.Rand
	cfg     record.Config
	journal *record.Journal // nil means that no process runs
	next    int
	open    []*record.Record // records whose completion is not answered yet

	pending map[bloomstore.Fingerprint]bool // items that are queued or leased
	void    map[string]bool                 // ids of records that void lines cancel
	effect  map[string]bool                 // ids of records of this worker that took effect
}

func (w *worker) end(context.Context) (frontier.Position, error) {
	if w.journal == nil {
		return nil, nil
	}
	return w.journal.Answered()
}

func (w *worker) ask(_ context.Context, host, url string, item bloomstore.Fingerprint, round uint32) (bool, error) {
	if host == "" || url == "" || round != 0 {
		w.t.Errorf("the outbox asks whether %q of host %q is pending in round %d, want a URL, a host and round 0", url, host, round)
	}
	return w.pending[item], nil
}

func (w *worker) outbox() *files.Outbox {
	return files.New(files.Config{Dir: w.cfg.Dir, Source: events.Source("test"), Journal: true, End: w.end, Pending: w.ask})
}

// attempt returns a key for a record. It consists of the record's item and lease.
func attempt(r *record.Record) string { return fmt.Sprintf("%x/%x", r.Item, r.Lease[:4]) }

// fetch appends records and syncs them. Their completions are not answered yet.
func (w *worker) fetch() {
	for range 1 + w.rng.IntN(8) {
		r := eventstest.Record(w.next, 5)
		if w.next++; w.rng.IntN(4) == 0 { // another attempt at an item that is pending
			for print := range w.pending {
				if i := slices.IndexFunc(w.open, func(o *record.Record) bool { return o.Item == print }); i < 0 {
					r.Item = print
				}
				break
			}
		}
		r.Lease = frontier.LeaseID{byte(w.next >> 8), byte(w.next), 1}
		w.pending[r.Item] = true
		if err := w.journal.Append(r); err != nil {
			w.t.Fatal(err)
		}
		w.open = append(w.open, r)
	}
	w.sync()
}

func (w *worker) sync() {
	if _, err := w.journal.Sync(); err != nil {
		w.t.Fatal(err)
	}
}

// answer chooses an open record at random. The queue confirms or refuses its completion, or
// does not answer.
func (w *worker) answer() {
	if len(w.open) == 0 {
		return
	}
	i := w.rng.IntN(len(w.open))
	r := w.open[i]
	w.open = slices.Delete(w.open, i, i+1)
	took := w.rng.IntN(2) == 0
	switch w.rng.IntN(4) {
	case 0: // no answer
		if took {
			w.finish(r)
		}
		w.journal.Settle(r.Item, r.Lease, false)
	case 1: // refused, because another worker has the item
		if err := w.journal.Void(r); err != nil {
			w.t.Fatal(err)
		}
		w.void[attempt(r)] = true
		w.journal.Settle(r.Item, r.Lease, false)
	default:
		w.finish(r)
		w.journal.Settle(r.Item, r.Lease, true)
	}
}

func (w *worker) finish(r *record.Record) {
	delete(w.pending, r.Item)
	w.effect[events.ID(r.Item, 0)] = true
}

// crash ends the process. Some of the completions under way take effect. Lines that were
// not synced are lost, including void lines.
func (w *worker) crash() {
	for _, r := range w.open {
		if w.rng.IntN(2) == 0 {
			w.finish(r)
		}
	}
	w.open = nil
	if err := w.journal.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.journal = nil
	if w.rng.IntN(3) == 0 { // as if Close had not written the list of lines in doubt
		_ = os.Remove(filepath.Join(w.cfg.Dir, "pages.answered"))
	}
	if w.rng.IntN(2) == 0 { // the crash leaves half a line
		f, err := os.OpenFile(filepath.Join(w.cfg.Dir, "pages.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(`{"url":"http://half`)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *worker) start() {
	journal, err := record.OpenJournal(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.journal = journal
}

// TestJournal runs a worker with refused and lost completions, crashes, rotation and
// packing. At the same time it reads the outbox, sometimes from an old cursor. A record
// that a void line cancels never becomes an event. A line is in doubt if the queue did not
// answer its completion. Such a line does not become an event while its item is queued or
// leased. In the end, each record whose completion took effect was sent.
func TestJournal(t *testing.T) {
	runs := 15
	if *proof {
		runs = 300
	}
	seed := bloomtest.Seed(t)
	for run := range uint64(runs) {
		t.Run(fmt.Sprint(run), func(t *testing.T) { journals(t, rand.New(rand.NewPCG(seed, run))) })
	}
}

func journals(t *testing.T, rng *rand.Rand) {
	w := &worker{
		t: t, rng: rng, cfg: record.Config{Dir: t.TempDir(), RotateBytes: 3000 + rng.Int64N(20000), Compress: rng.IntN(2) == 0},
		pending: make(map[bloomstore.Fingerprint]bool), void: make(map[string]bool), effect: make(map[string]bool),
	}
	w.start()
	o, at, sent := w.outbox(), events.Cursor(""), make(map[string]bool)
	read := func() {
		got, next, err := o.Read(t.Context(), at, 1+rng.IntN(20))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got {
			var r struct{ Fingerprint, Lease string }
			if err := json.Unmarshal(e.Data, &r); err != nil {
				t.Fatal(err)
			}
			var item bloomstore.Fingerprint
			if _, err := hex.Decode(item[:], []byte(r.Fingerprint)); err != nil {
				t.Fatal(err)
			}
			if w.void[r.Fingerprint+"/"+r.Lease[:8]] {
				t.Errorf("event %s was sent, although a void line cancels its record", e.ID)
			}
			if w.pending[item] && !w.effect[e.ID] {
				t.Errorf("event %s was sent while its item is queued or leased", e.ID)
			}
			sent[e.ID] = true
		}
		if at = next; rng.IntN(10) == 0 {
			_ = o.Close()
			if o = w.outbox(); len(got) > 0 {
				at = got[rng.IntN(len(got))].Cursor
			}
		}
	}
	for range 150 {
		switch n := rng.IntN(20); {
		case w.journal == nil && n < 8:
			w.start()
		case w.journal == nil || n < 6:
			read()
		case n < 11:
			w.fetch()
		case n < 18:
			w.answer()
		case n < 19:
			w.sync()
		default:
			w.crash()
		}
	}
	if w.journal != nil {
		w.crash()
	}
	for item := range w.pending { // another worker finishes the items
		delete(w.pending, item)
	}
	if rng.IntN(2) == 0 {
		w.start()
		defer func() { _ = w.journal.Close() }()
	}
	for last := events.Cursor("none"); last != at; {
		_ = o.Close()
		o, last = w.outbox(), at // a new outbox checks the held lines at once
		read()
	}
	if missing := eventstest.Missing(slices.Collect(maps.Keys(sent)), slices.Collect(maps.Keys(w.effect))); len(missing) > 0 {
		t.Errorf("%d of %d records were not sent: %v; last cursor %s", len(missing), len(w.effect), missing, at)
	}
}

// TestHeld: a line in doubt does not delay the lines after it. It becomes an event when
// its item is no longer queued or leased.
func TestHeld(t *testing.T) {
	w := &worker{t: t, rng: rand.New(rand.NewPCG(1, 1)), cfg: record.Config{Dir: t.TempDir()}, pending: make(map[bloomstore.Fingerprint]bool)}
	w.start()
	var all []*record.Record
	for i := range 5 {
		r := eventstest.Record(i, 1)
		r.Lease[0] = byte(i + 1)
		all = append(all, r)
		if err := w.journal.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	w.sync()
	w.pending[all[1].Item] = true
	for i, r := range all {
		if i < 3 {
			w.journal.Settle(r.Item, r.Lease, i != 1)
		}
	}
	o := w.outbox()
	defer o.Close()
	got, at, err := o.Read(t.Context(), "", 10)
	if ids := eventstest.IDs(got); err != nil || !slices.Equal(ids, []string{events.ID(all[0].Item, 0), events.ID(all[2].Item, 0)}) {
		t.Fatalf("Read = %v, %v; want the events of the first and the third record", ids, err)
	}
	if _, offset, held := strings.Cut(string(at), "+"); !held || offset == "" {
		t.Errorf("the cursor %q does not name the second line, which is held back", at)
	}
	if lag, err := o.Lag(t.Context(), at); err != nil || lag.Events != 1 {
		t.Errorf("Lag = %+v, %v; want 1 event", lag, err)
	}
	delete(w.pending, all[1].Item)
	o = w.outbox()
	got, at, err = o.Read(t.Context(), at, 10)
	if ids := eventstest.IDs(got); err != nil || !slices.Equal(ids, []string{events.ID(all[1].Item, 0)}) || strings.Contains(string(at), "+") {
		t.Errorf("Read = %v, %v, cursor %q; want the event of the second record, and no held line in the cursor", ids, err, at)
	}
	if err := w.journal.Close(); err != nil {
		t.Fatal(err)
	}
	// The last two lines are in doubt after the worker has ended. Neither item is queued or
	// leased.
	w.journal = nil
	got, _, err = o.Read(t.Context(), at, 10)
	if ids := eventstest.IDs(got); err != nil || !slices.Equal(ids, []string{events.ID(all[3].Item, 0), events.ID(all[4].Item, 0)}) {
		t.Errorf("Read = %v, %v; want the events of the last two records", ids, err)
	}
}

// TestLateEnd: at first the outbox does not notice that the worker runs, and therefore reads
// all whole lines. The line whose completion is not answered yet is held back until the
// answer. Lag counts the held line.
func TestLateEnd(t *testing.T) {
	w := &worker{t: t, rng: rand.New(rand.NewPCG(1, 1)), cfg: record.Config{Dir: t.TempDir()}, pending: make(map[bloomstore.Fingerprint]bool)}
	w.start()
	defer func() { _ = w.journal.Close() }()
	r := eventstest.Record(1, 1)
	if err := w.journal.Append(r); err != nil {
		t.Fatal(err)
	}
	w.sync()
	w.pending[r.Item] = true
	known := false
	open := func() *files.Outbox {
		return files.New(files.Config{Dir: w.cfg.Dir, Source: "urn:crawler:x", Journal: true, Pending: w.ask, End: func(ctx context.Context) (frontier.Position, error) {
			if !known {
				return nil, nil
			}
			return w.end(ctx)
		}})
	}
	at := events.Cursor("")
	for _, want := range []int{0, 0, 1} {
		o := open()
		got, next, err := o.Read(t.Context(), at, 10)
		if err != nil || len(got) != want {
			t.Fatalf("Read returned %d events, error %v; want %d", len(got), err, want)
		}
		if lag, err := o.Lag(t.Context(), next); err != nil || lag.Events != uint64(1-want) {
			t.Errorf("Lag after %q = %+v, %v; want %d held lines", next, lag, err, 1-want)
		}
		if at = next; known {
			delete(w.pending, r.Item)
			w.journal.Settle(r.Item, r.Lease, true)
		}
		known = true
		_ = o.Close()
	}
}

// TestUnavailable: for a line in doubt, Read asks the queue. If the queue does not answer, Read
// returns an error that wraps frontier.ErrUnavailable, and it does not return this line.
func TestUnavailable(t *testing.T) {
	w := &worker{t: t, rng: rand.New(rand.NewPCG(1, 1)), cfg: record.Config{Dir: t.TempDir()}, pending: make(map[bloomstore.Fingerprint]bool)}
	w.start()
	w.fetch()
	if err := w.journal.Close(); err != nil {
		t.Fatal(err)
	}
	w.journal = nil
	o := files.New(files.Config{Dir: w.cfg.Dir, Source: "urn:crawler:x", Journal: true, End: w.end,
		Pending: func(context.Context, string, string, bloomstore.Fingerprint, uint32) (bool, error) {
			return false, frontier.ErrUnavailable
		}})
	defer o.Close()
	if got, at, err := o.Read(t.Context(), "", 10); len(got) > 0 || at != "" || !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Read returned %d events, cursor %q, %v; want none, no cursor and ErrUnavailable", len(got), at, err)
	}
}
