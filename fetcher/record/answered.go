package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// Settler is a Voider that also remembers which completions of its records the store has
// confirmed. A completion is the step in which the store marks an item as finished.
type Settler interface {
	Voider
	// Settle is called after the last attempt to complete an item under a lease. The
	// argument confirmed reports whether the store confirmed the completion. If confirmed is
	// false and Void was not called, it is not known whether the completion took effect.
	// Settle ignores items without an appended record. It may be called while another method runs.
	Settle(item bloomstore.Fingerprint, lease frontier.LeaseID, confirmed bool)
}

// Doubt lists the lines of a journal that are in doubt. The store did not confirm their
// completion, because the worker died or the store could not be reached. So it is not
// known whether their completions took effect.
type Doubt struct {
	// Answered is a place in the journal. Of the lines before this place, exactly those in
	// Spans are in doubt. A worker saves the Doubt at least every ten seconds while it
	// syncs lines, and when it closes the journal.
	Answered Place  `json:"answered"`
	Spans    []Span `json:"in_doubt"` // in ascending order, before Answered
}

// Span is a range of lines. From is the place of the first line, and To is the place where
// the last line ends.
type Span struct {
	From Place `json:"from"`
	To   Place `json:"to"`
}

// Has reports whether the line at a place is in doubt. The place must be before Answered.
func (d *Doubt) Has(at Place) bool {
	i := sort.Search(len(d.Spans), func(i int) bool { return at.Before(d.Spans[i].To) })
	return i < len(d.Spans) && !at.Before(d.Spans[i].From)
}

func (d *Doubt) add(s Span) {
	if n := len(d.Spans); n > 0 && d.Spans[n-1].To == s.From {
		d.Spans[n-1].To = s.To
		return
	}
	d.Spans = append(d.Spans, s)
}

// Doubt reads the Doubt that the journal in the reader's directory saved. If the saved file
// is missing or damaged, Doubt returns a zero Doubt. This is always safe, because a zero Doubt
// says nothing about any line.
func (r Reader) Doubt() (Doubt, error) { return readDoubt(vfs.Default, r.Dir, r.Series) }

// answered returns the name of the file that contains a journal's Doubt.
func (s Series) answered() string { return s.name() + ".answered" }

func readDoubt(filesystem vfs.FS, dir string, series Series) (d Doubt, err error) {
	file, err := filesystem.Open(filesystem.PathJoin(dir, series.answered()))
	if errors.Is(err, fs.ErrNotExist) {
		return Doubt{}, nil
	}
	if err != nil {
		return d, fmt.Errorf("record: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return d, fmt.Errorf("record: %w", err)
	}
	var saved savedDoubt
	if json.Unmarshal(text, &saved) != nil || saved.Format != doubtFormat {
		return Doubt{}, nil
	}
	return saved.Doubt, nil
}

// savedDoubt is the content of the file with a journal's Doubt.
type savedDoubt struct {
	Format int `json:"format"`
	Doubt
}

const doubtFormat = 1

// saveAnsweredEvery is how often a running journal saves its Doubt.
const saveAnsweredEvery = 10 * time.Second

// account tracks which records of a journal are settled, and which of these are in doubt. A
// record is settled when its state cannot change any more: the store confirmed its completion,
// a void line (a later line that cancels the record) is on disk, or the record stays in doubt.
type account struct {
	fs   vfs.FS
	dir  string
	name string

	mu    sync.Mutex
	open  []*openLine // records that are perhaps not settled yet, oldest first
	of    map[lineKey]*openLine
	end   Place // of the lines on disk
	doubt Doubt
	saved time.Time
}

type lineKey struct {
	item  bloomstore.Fingerprint
	lease frontier.LeaseID
}

// openLine is a record that is perhaps not settled yet.
type openLine struct {
	at, end Place // offsets in the buffer, with File 0, until the line is on disk
	synced  bool
	state   lineState
}

type lineState byte

const (
	waiting  lineState = iota
	counts             // the store confirmed its completion
	voided             // a void line cancels it
	doubtful           // it is not known whether its completion took effect
)

// openAccount continues the account of a journal. end is the place where the lines of the
// journal end. The previous process saved Doubt.Answered. The lines from that place to end
// are in doubt.
func openAccount(cfg Config, end Place) (*account, error) {
	doubt, err := readDoubt(cfg.FS, cfg.Dir, cfg.Series)
	if err != nil {
		return nil, err
	}
	if from := cmp.Or(doubt.Answered, Place{File: 1}); from.Before(end) {
		doubt.add(Span{from, end})
	}
	doubt.Answered = end
	a := &account{fs: cfg.FS, dir: cfg.Dir, name: cfg.Series.answered(), of: make(map[lineKey]*openLine), end: end, doubt: doubt}
	return a, a.save()
}

// append notes a record whose line is in the buffer, from offset begin to offset end.
func (a *account) append(r *Record, begin, end int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, key := &openLine{at: Place{Offset: int64(begin)}, end: Place{Offset: int64(end)}}, lineKey{r.Item, r.Lease}
	if first := a.of[key]; first != nil {
		first.state = doubtful
	}
	a.open, a.of[key] = append(a.open, l), l
}

// void notes that the void line of r is in the buffer.
func (a *account) void(r *Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.of[lineKey{r.Item, r.Lease}]; l != nil {
		l.state, l.synced = voided, false // until the void line is on disk
	}
}

// settle implements Settler.Settle.
func (a *account) settle(item bloomstore.Fingerprint, lease frontier.LeaseID, confirmed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := lineKey{item, lease}
	l := a.of[key]
	delete(a.of, key)
	switch {
	case l == nil || l.state == voided:
	case confirmed:
		l.state = counts
	default:
		l.state = doubtful
	}
}

// sync notes that the content of the buffer is now on disk, between the places begin and
// end.
func (a *account) sync(begin, end Place) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end = end
	for _, l := range a.open {
		if l.at.File == 0 {
			l.at = Place{begin.File, begin.Offset + l.at.Offset}
			l.end = Place{begin.File, begin.Offset + l.end.Offset}
		}
		l.synced = true
	}
	if !a.pass() && time.Since(a.saved) < saveAnsweredEvery {
		return nil
	}
	return a.save()
}

// answered returns the place before which all lines are settled. If more of these lines are
// in doubt than before, it saves the Doubt before it returns.
func (a *account) answered() (Place, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.pass() {
		return a.doubt.Answered, nil
	}
	err := a.save()
	return a.doubt.Answered, err
}

// pass removes the settled lines at the beginning of a.open, and reports whether some of
// them are in doubt. The caller must hold a.mu.
func (a *account) pass() (doubts bool) {
	n := 0
	for n < len(a.open) && a.open[n].synced && a.open[n].state != waiting {
		if l := a.open[n]; l.state == doubtful {
			a.doubt.add(Span{l.at, l.end})
			doubts = true
		}
		n++
	}
	a.open = slices.Delete(a.open, 0, n)
	a.doubt.Answered = a.end
	if len(a.open) > 0 && a.open[0].at.File > 0 {
		a.doubt.Answered = a.open[0].at
	}
	return doubts
}

// save writes the file with the Doubt. The caller must hold a.mu, unless the account is new
// and not shared yet.
func (a *account) save() error {
	text, err := json.Marshal(savedDoubt{doubtFormat, a.doubt})
	if err == nil {
		err = durable.Replace(a.fs, a.fs.PathJoin(a.dir, a.name), func(w io.Writer) error {
			_, err := w.Write(append(text, '\n'))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("record: save %s: %w", a.name, err)
	}
	a.saved = time.Now()
	return nil
}
