package record

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
)

// JoinReferrers calls the function read with all lines of records. It adds the key "referrer", the
// URL of the referring page, after each "referrer_id". A record whose referrer is unknown stays
// unchanged. The function read can iterate over the joined lines several times, but not at the same
// time. JoinReferrers returns its error.
//
// It reads the lines once before it calls read. It stores all URLs and the ids of all referrers in a
// directory below temp, about 250 bytes for each record. Then it joins them in 64 shares. It takes
// about 50 MB of memory for each 10⁷ records.
func JoinReferrers(ctx context.Context, lines Lines, temp string, read func(joined Lines) error) (err error) {
	files, err := newSpills(temp, "referrers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.remove()) }()
	var join referrers
	for i := range join {
		s := &join[i]
		for _, f := range []**spill{&s.pages, &s.asked, &s.answers} {
			if *f, err = files.create(); err != nil {
				return err
			}
		}
	}
	n, err := join.ask(ctx, lines)
	if err != nil {
		return err
	}
	for i := range join {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := join[i].answer(); err != nil {
			return fmt.Errorf("record: join referrers: %w", err)
		}
	}
	return read(join.joined(lines, n))
}

// id is a record's id; its bytes are uniformly distributed.
type id [8]byte

// referrers divides the records into shares by ids. The URL of a page is in the same
// share as the references to this page in other records.
type referrers [64]share

func (all *referrers) of(page id) *share { return &all[page[0]%byte(len(all))] }

// share is a part of the records, on disk.
type share struct {
	pages   *spill        // id and URL of each record
	asked   *spill        // ids of referrers, in the order of the records that refer to them
	answers *spill        // their URLs in the same order, empty for an unknown referrer
	urls    *bufio.Reader // of answers, for one iteration
}

// ask writes the ids and URLs of the records, and the ids of their referrers, to the shares.
// It returns the number of lines.
func (all *referrers) ask(ctx context.Context, lines Lines) (n uint64, err error) {
	for line, err := range lines {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return n, err
		}
		n++
		keys, err := parseKeys(line)
		if err != nil {
			return n, fmt.Errorf("record: line %d: %w", n, err)
		}
		page := all.of(keys.id).pages
		writeID(page.Writer, keys.id)
		writeSized(page.Writer, keys.url)
		if keys.referrerEnd > 0 {
			writeID(all.of(keys.referrer).asked.Writer, keys.referrer)
		}
	}
	return n, nil
}

// writeID and writeSized ignore errors, because a bufio.Writer keeps its error for Flush.

func writeID(w *bufio.Writer, page id) {
	_, _ = w.Write(append(w.AvailableBuffer(), page[:]...))
}

func writeSized(w *bufio.Writer, text []byte) {
	_, _ = w.Write(binary.AppendUvarint(w.AvailableBuffer(), uint64(len(text))))
	_, _ = w.Write(text)
}

// answer writes the URLs of the share's referrers to s.answers.
func (s *share) answer() error {
	urls, err := s.load()
	if err != nil {
		return err
	}
	asked, err := s.asked.all()
	if err != nil {
		return err
	}
	for page := range slices.Chunk(asked, len(id{})) {
		writeSized(s.answers.Writer, urls[id(page)])
	}
	return s.answers.Flush()
}

// load reads the URLs of a share's pages.
func (s *share) load() (urls map[id][]byte, err error) {
	text, err := s.pages.all()
	if err != nil {
		return nil, err
	}
	urls = make(map[id][]byte)
	for len(text) > 0 {
		page := id(text)
		size, n := binary.Uvarint(text[len(page):])
		text = text[len(page)+n:]
		urls[page], text = text[:size], text[size:]
	}
	return urls, nil
}

// joined yields the first n lines, with the URLs of their referrers.
func (all *referrers) joined(lines Lines, n uint64) Lines {
	return func(yield func([]byte, error) bool) {
		for i := range all {
			var err error
			if all[i].urls, err = all[i].answers.reader(); err != nil {
				yield(nil, fmt.Errorf("record: join referrers: %w", err))
				return
			}
		}
		var joined, url []byte
		left := n
		for line, err := range lines {
			if err == nil && left == 0 {
				return
			}
			left--
			if err == nil {
				joined, url, err = all.join(joined[:0], line, url)
			}
			if !yield(joined, err) || err != nil {
				return
			}
		}
	}
}

// join appends a line, with the URL of its referrer, to joined. It reuses the memory of room.
func (all *referrers) join(joined, line, room []byte) (_, url []byte, err error) {
	keys, err := parseKeys(line)
	if err != nil || keys.referrerEnd == 0 {
		return append(joined, line...), room, err
	}
	if url, err = readSized(all.of(keys.referrer).urls, room); err != nil {
		return joined, url, fmt.Errorf("record: join referrers: %w", err)
	}
	if len(url) == 0 {
		return append(joined, line...), url, nil
	}
	joined = append(append(joined, line[:keys.referrerEnd]...), `,"referrer":"`...)
	return append(append(joined, url...), line[keys.referrerEnd-1:]...), url, nil // from the quote on
}

// readSized reads what writeSized wrote. It reuses the memory of room.
func readSized(r *bufio.Reader, room []byte) ([]byte, error) {
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return room, err
	}
	room = append(room[:0], make([]byte, size)...)
	_, err = io.ReadFull(r, room)
	return room, err
}

// keys are the parts of a record's line that the join needs.
type keys struct {
	id, referrer id
	url          []byte // as in the line, with its escapes
	referrerEnd  int    // offset in the line after the referrer's id and its quote; 0 means that there is no referrer
}

var errNoRecord = errors.New("not a record's line")

// parseKeys finds what the join needs in a line, without parsing all of it.
func parseKeys(line []byte) (k keys, err error) {
	url, _, ok := stringOf(line, `"url":"`)
	_, end, hasID := stringOf(line, `"id":"`)
	if !ok || !hasID || !parseHex(k.id[:], line, `"id":"`) {
		return k, errNoRecord
	}
	k.url = url
	line = line[:end] // because a field of the page may be called referrer_id
	_, end, hasReferrer := stringOf(line, `"referrer_id":"`)
	if !hasReferrer {
		return k, nil
	}
	if !parseHex(k.referrer[:], line, `"referrer_id":"`) {
		return k, errNoRecord
	}
	k.referrerEnd = end + 1
	return k, nil
}

// parseHex decodes the string that follows the first occurrence of key in a line.
func parseHex(dst, line []byte, key string) bool {
	text, _, ok := stringOf(line, key)
	if !ok || len(text) != hex.EncodedLen(len(dst)) {
		return false
	}
	_, err := hex.Decode(dst, text)
	return err == nil
}

// stringOf returns the string that follows the first occurrence of key in a line, and the
// offset of its end. Quotes within strings are escaped, so a key with its quotes cannot
// occur inside a string. Its first occurrence is the record's own key, because the keys in
// Record.Fields come later.
func stringOf(line []byte, key string) (text []byte, end int, ok bool) {
	i := bytes.Index(line, []byte(key))
	if i < 0 {
		return nil, 0, false
	}
	begin := i + len(key)
	for end = begin; end < len(line); end++ {
		switch line[end] {
		case '\\':
			end++
		case '"':
			return line[begin:end], end, true
		}
	}
	return nil, 0, false
}
