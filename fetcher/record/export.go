package record

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Export merges the journals of all workers of a crawl, including dead ones. The result
// has one record for each item (a URL of the crawl) and each of its rounds.
//
// A record is written before the store completes its item. If the store then refuses the
// completion, a void line cancels the record, and the record does not count. An item and
// round may have several other records, because the item is sometimes fetched again. This
// happens if a worker died between the record and the completion, or if a store lost a
// completion. Of the records of one lease, only the first line counts. Of the records that are
// left, the one with the latest fetched_at is exported, and if several have the same time, the
// one with the greatest lease id. So the result depends only on the lines.
//
// If a worker died between the record and the completion, the item may still wait to be
// fetched again. The record does not show this, and is exported unless Pending contains the
// item. After the item is finished, one of its records is exported.
//
// Export reads all lines twice. It writes 45 bytes for each line to Temp. It takes 20 MB
// of memory, and 40 MB more for each 10⁸ lines.
type Export struct {
	Dirs []string // of the journals, in any order; workers may still write to them
	Temp string   // a directory is created in it; empty means the system's
	// Pending are the items that are queued or leased in the store now. A record with the
	// item and the round of such a Key never took effect. nil means that these items are
	// not known. Pending matches the records exactly only while no worker runs.
	Pending iter.Seq2[Key, error]
	// Edges makes To write links instead of records. For each record that would be exported,
	// To writes the lines of the series Links that were written with the record.
	Edges bool
	Skip  func(line []byte) bool // leaves out lines that would be exported; nil leaves out none
}

// Key identifies a record.
type Key struct {
	Item  bloomstore.Fingerprint
	Round uint32
}

// Exported counts what became of the lines of the journals.
type Exported struct {
	Records  uint64 `json:"records"`  // exported
	Repeated uint64 `json:"repeated"` // not exported, because another record of the item and round is exported
	Void     uint64 `json:"void"`     // cancelled by a void line
	Pending  uint64 `json:"pending"`  // of items that will be fetched again
	Blocked  uint64 `json:"blocked"`  // left out by Export.Skip
	// Damaged counts the lines that could not be read. A power loss may damage lines that
	// were not synced. No item was completed before its line was synced. FirstDamage has the
	// position of the first damaged line.
	Damaged     uint64 `json:"damaged"`
	FirstDamage string `json:"first_damage,omitempty"`
}

// To writes the exported records to w. Each line is as its worker wrote it. The lines of
// one directory follow those of the previous one in Dirs, and keep their order.
func (e Export) To(ctx context.Context, w io.Writer) (sums Exported, err error) {
	files, err := newSpills(e.Temp, "export-")
	if err != nil {
		return sums, err
	}
	defer func() { err = errors.Join(err, files.remove()) }()
	x := export{ctx: ctx, spills: files, sums: &sums, wanted: kindRecord, skip: e.Skip, ends: make([]Place, len(e.Dirs))}
	series := Pages
	if e.Edges {
		x.wanted, series = kindEdges, Links
	}
	if err := x.writePending(e.Pending); err != nil {
		return sums, err
	}
	for i, dir := range e.Dirs {
		if x.ends[i], err = x.gather(Reader{Dir: dir}); err != nil {
			return sums, err
		}
		if !e.Edges {
			continue
		}
		// The links are read after the records. The links of a record are synced before the
		// record, so the files now have the links of all records that were read.
		if x.ends[i], err = x.gather(Reader{Dir: dir, Series: Links}); err != nil {
			return sums, err
		}
	}
	for i := range x.shares {
		if x.shares[i].spill == nil {
			continue
		}
		if err := x.decide(&x.shares[i]); err != nil {
			return sums, fmt.Errorf("record: export: %w", err)
		}
	}
	out := bufio.NewWriterSize(w, 256<<10)
	for i, dir := range e.Dirs {
		if err := x.write(out, Reader{Dir: dir, Series: series}, x.ends[i]); err != nil {
			return sums, err
		}
	}
	if err := out.Flush(); err != nil {
		return sums, fmt.Errorf("record: %w", err)
	}
	return sums, nil
}

// export is one run of an Export.
type export struct {
	ctx    context.Context
	spills *spills
	sums   *Exported
	wanted byte                           // the kind of the lines that are written
	skip   func(line []byte) bool         // Export.Skip
	ends   []Place                        // for each directory: where its lines of that kind ended in the first pass
	shares [math.MaxUint8 + 1]exportShare // by the first byte of the fingerprint
}

// exportShare has the entries of a part of the items.
type exportShare struct {
	*spill                // entries, then answers
	answers *bufio.Reader // a byte for each line of the wanted kind, in the order of reading; 1 means exported
}

func (x *export) of(item bloomstore.Fingerprint) *exportShare { return &x.shares[item[0]] }

func (x *export) writePending(pending iter.Seq2[Key, error]) error {
	if pending == nil {
		return nil
	}
	for key, err := range pending {
		if err == nil {
			err = x.ctx.Err()
		}
		if err == nil {
			err = x.put(&leasedLine{Key: key, kind: kindPending})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put adds an entry to its share.
func (x *export) put(l *leasedLine) error {
	s := x.of(l.Item)
	if s.spill == nil {
		var err error
		if s.spill, err = x.spills.create(); err != nil {
			return err
		}
	}
	_, _ = s.Write(l.appendEntry(s.AvailableBuffer())) // a bufio.Writer keeps its error for Flush
	return nil
}

// gather is the first pass over a journal. It returns where the journal ends.
func (x *export) gather(r Reader) (end Place, err error) {
	for l, err := range r.lines(noLimit) {
		if err == nil {
			err = x.ctx.Err()
		}
		if err != nil {
			return end, err
		}
		leased, err := parseLeased(l.text)
		if err == nil {
			if err := x.put(&leased); err != nil {
				return end, err
			}
		} else if x.sums.Damaged++; x.sums.Damaged == 1 {
			x.sums.FirstDamage = l.fault(err).Error()
		}
		end = l.end()
	}
	return end, nil
}

// write is the second pass: it writes the lines before end that are exported.
func (x *export) write(out *bufio.Writer, r Reader, end Place) error {
	for l, err := range r.lines(end) {
		if err == nil {
			err = x.ctx.Err()
		}
		if err != nil {
			return err
		}
		leased, err := parseLeased(l.text)
		if err != nil || leased.kind != x.wanted {
			continue
		}
		exported, err := x.of(leased.Item).answers.ReadByte()
		if err != nil {
			return fmt.Errorf("record: export: %w", err)
		}
		if exported == 0 {
			continue
		}
		if x.skip != nil && x.skip(l.text) {
			x.sums.Records--
			x.sums.Blocked++
			continue
		}
		if _, err := out.Write(l.text); err != nil {
			return fmt.Errorf("record: %w", err)
		}
	}
	return nil
}

// leasedLine is the part of a journal's line that Export needs.
type leasedLine struct {
	Key
	kind    byte
	lease   frontier.LeaseID
	fetched int64 // of a record: ns since 1970; of edges: the number of the part
}

var errNoJournal = errors.New("not a journal's line")

// parseLeased finds what Export needs in a line, without parsing all of it. It refuses a line
// with a zero byte. JSON contains no zero bytes, but a power loss can leave a run of them in a
// file.
func parseLeased(line []byte) (l leasedLine, err error) {
	var hasRound bool
	l.Round, hasRound = parseNumber(line, `"round":`)
	if !bytes.HasPrefix(line, []byte("{")) || !bytes.HasSuffix(line, []byte("}\n")) || bytes.IndexByte(line, 0) >= 0 ||
		!hasRound || !parseLastHex(l.Item[:], line, `"fingerprint":"`) || !parseLastHex(l.lease[:], line, `"lease":"`) {
		return l, errNoJournal
	}
	if bytes.HasPrefix(line, []byte(voidPrefix)) {
		l.kind = kindVoid
		return l, nil
	}
	if bytes.HasPrefix(line, []byte(edgesPrefix)) {
		part, found := parseNumber(line, `"part":`)
		if !found {
			return l, errNoJournal
		}
		l.kind, l.fetched = kindEdges, int64(part)
		return l, nil
	}
	l.kind = kindRecord
	text, _, _ := stringOf(line, `"fetched_at":"`)
	fetched, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return l, errNoJournal
	}
	l.fetched = fetched.UnixNano()
	return l, nil
}

// JournalLine is the identity of a line of a Journal.
type JournalLine struct {
	Key
	Lease frontier.LeaseID
	Void  bool // the line takes back the record of this item, round and lease
}

// ParseJournalLine parses a line of a Journal. It returns an error if the line is damaged.
// A power loss may damage lines that were not synced.
func ParseJournalLine(text []byte) (JournalLine, error) {
	l, err := parseLeased(text)
	return JournalLine{l.Key, l.lease, l.kind == kindVoid}, err
}

// parseLastHex is like parseHex, but uses the last occurrence of key. The keys of an item
// and its lease come after Record.Fields, which may contain keys of the same names.
func parseLastHex(dst, line []byte, key string) bool {
	return parseHex(dst, line[max(bytes.LastIndex(line, []byte(key)), 0):], key)
}

// parseNumber returns the number that follows the first occurrence of key in a line.
func parseNumber(line []byte, key string) (n uint32, found bool) {
	_, rest, found := bytes.Cut(line, []byte(key))
	digits := rest[:len(rest)-len(bytes.TrimLeft(rest, "0123456789"))]
	number, err := strconv.ParseUint(string(digits), 10, 32)
	return uint32(number), found && err == nil
}
