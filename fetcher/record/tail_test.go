package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// tailed returns the ids of the records that the tail reads up to the place end.
func tailed(t *testing.T, tail *Tail, end Place) (all []string) {
	t.Helper()
	for {
		text, err := tail.Next(end)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := decode(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r.ID)
	}
}

// TestTailFollowsFiles: a tail that begins at any line reads all later lines, in packed,
// closed and active files. It reads appended lines once the end includes them, and never
// half a line.
func TestTailFollowsFiles(t *testing.T) {
	t.Parallel()
	dir, active := threeFiles(t)
	r := Reader{Dir: dir}
	end := Place{3, int64(len(active))}
	places := []Place{{1, 0}}
	for tail := r.Tail(Place{1, 0}); ; {
		if _, err := tail.Next(end); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		places = append(places, tail.At())
	}
	for n, from := range places {
		if got, want := tailed(t, r.Tail(from), end), ids(n, 9); !slices.Equal(got, want) {
			t.Errorf("records from %v: %v, want %v", from, got, want)
		}
	}
	tail := r.Tail(Place{1, 0})
	if got := tailed(t, tail, places[7]); !slices.Equal(got, ids(0, 7)) {
		t.Errorf("records up to %v: %v, want the first 7", places[7], got)
	}
	more := line(t, sample(9, 7))
	write(t, dir, Pages.active(), append(bytes.Clone(active), more[:len(more)/2]...))
	if got := tailed(t, tail, end); !slices.Equal(got, ids(7, 9)) {
		t.Errorf("after half a line was appended: records %v, want 2 more", got)
	}
	write(t, dir, Pages.active(), append(bytes.Clone(active), more...))
	end.Offset += int64(len(more))
	if whole, err := r.WholeLines(); err != nil || whole != end {
		t.Errorf("WholeLines = %v, %v, want %v", whole, err, end)
	}
	if got := tailed(t, tail, end); !slices.Equal(got, ids(9, 10)) {
		t.Errorf("after the whole line was appended: records %v, want 1 more", got)
	}
	// The active file is closed and packed while the tail has it open.
	if err := os.Rename(filepath.Join(dir, Pages.active()), filepath.Join(dir, Pages.closed(3))); err != nil {
		t.Fatal(err)
	}
	write(t, dir, Pages.active(), line(t, sample(10, 8)))
	if got := tailed(t, tail, Place{4, int64(len(line(t, sample(10, 8))))}); !slices.Equal(got, ids(10, 11)) {
		t.Errorf("after a rotation: records %v, want 1 more", got)
	}
	if err := tail.Close(); err != nil {
		t.Error(err)
	}
}

// TestAnsweredStopsAtWaitingRecord: Journal.Answered ends before the first record for which
// Settle was not called, or whose lines are not on disk yet. Of the records before this
// position, Reader.Doubt lists those that were neither confirmed nor cancelled, even after a
// restart.
func TestAnsweredStopsAtWaitingRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var ends []int64
	open := func() *Journal {
		j, err := OpenJournal(Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := open()
	item := func(n int) (bloomstore.Fingerprint, frontier.LeaseID) {
		return bloomstore.Fingerprint{byte(n)}, frontier.LeaseID{byte(n)}
	}
	add := func(n int) *Record {
		r := sample(n, n-1)
		r.Item, r.Lease = item(n)
		if err := j.Append(&r); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int64(len(j.files.buffer)))
		return &r
	}
	sync := func() {
		if _, err := j.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	settle := func(n int, took bool) {
		print, lease := item(n)
		j.Settle(print, lease, took)
	}
	want := func(offset int64, spans ...Span) {
		t.Helper()
		position, err := j.Answered()
		if err != nil || Pages.EndOf(position) != (Place{1, offset}) {
			t.Errorf("Answered = %v, %v, want byte %d", position, err, offset)
		}
		if d, err := (Reader{Dir: dir}).Doubt(); err != nil || !slices.Equal(d.Spans, spans) {
			t.Errorf("spans in doubt: %v, %v, want %v", d.Spans, err, spans)
		}
	}
	records := make([]*Record, 6)
	for n := range records {
		records[n] = add(n)
	}
	settle(0, true)
	want(0) // nothing is on disk
	sync()
	want(ends[0])
	settle(2, true)
	want(ends[0])
	if err := j.Void(records[1]); err != nil {
		t.Fatal(err)
	}
	settle(1, false)
	want(ends[0]) // the void line is not on disk
	sync()
	want(ends[2])
	settle(3, false)
	doubt := Span{Place{1, ends[2]}, Place{1, ends[3]}}
	want(ends[3], doubt)
	settle(4, true)
	settle(99, true)
	want(ends[4], doubt)
	end := j.files.end
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err := (Reader{Dir: dir}).Doubt(); err != nil || d.Answered != (Place{1, ends[4]}) {
		t.Errorf("after Close: Doubt = %+v, %v, want it answered up to byte %d", d, err, ends[4])
	}
	text, err := os.ReadFile(filepath.Join(dir, "pages.answered"))
	form := fmt.Sprintf(`{"format":1,"answered":{"file":1,"offset":%d},"in_doubt":[{"from":{"file":1,"offset":%d},"to":{"file":1,"offset":%d}}]}`+"\n",
		ends[4], ends[2], ends[3])
	if err != nil || string(text) != form {
		t.Errorf("pages.answered has %s, %v, want %s", text, err, form)
	}
	j = open()
	want(end.Offset, doubt, Span{Place{1, ends[4]}, end})
	if err := errors.Join(j.Close(), os.WriteFile(filepath.Join(dir, "pages.answered"), []byte("\x00\x00"), 0o600)); err != nil {
		t.Fatal(err)
	}
	j = open()
	want(end.Offset, Span{Place{1, 0}, end}) // a damaged file: all records are in doubt
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReadersFindOwnFingerprint: a line ends with the fingerprint of its record. Readers use
// this one, and not another key of that name.
func TestReadersFindOwnFingerprint(t *testing.T) {
	t.Parallel()
	r := sample(1, 0)
	r.Fields = []byte(`{"fingerprint":"000000000000000000000000000000ff"}`)
	old := line(t, r)
	r.Item, r.Lease = bloomstore.Fingerprint{1, 2, 15: 9}, frontier.LeaseID{7}
	leased, err := r.appendLeased(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		text []byte
		want bloomstore.Fingerprint
	}{"old": {old, bloomstore.Fingerprint{}}, "new": {line(t, r), r.Item}, "leased": {leased, r.Item}} {
		got, err := decode(test.text)
		if err != nil || got.Item != test.want || bytes.Count(test.text, []byte(`"fingerprint"`)) > 2 {
			t.Errorf("%s: fingerprint %x, %v, want %x\n%s", name, got.Item, err, test.want, test.text)
		}
	}
}
