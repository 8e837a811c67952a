package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"

	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// erasedKey follows voidPrefix, and perhaps spaces, in the line that took the place of an erased record.
const erasedKey = `"erased":`

// Since returns the number in a line that took the place of an erased record: see Erase. The result erased is false for
// every other line.
func Since(line []byte) (since uint64, erased bool) {
	rest, void := bytes.CutPrefix(line, []byte(voidPrefix))
	digits, erased := bytes.CutPrefix(bytes.TrimLeft(rest, " "), []byte(erasedKey))
	if !void || !erased {
		return 0, false
	}
	n := bytes.IndexByte(digits, ',')
	since, err := strconv.ParseUint(string(digits[:max(n, 0)]), 10, 64)
	return since, err == nil
}

// Erased counts the lines that an Erase was to overwrite, by where they are.
type Erased struct {
	Closed uint64 `json:"closed"` // in closed files; they were overwritten, unless the Erase was dry
	Active uint64 `json:"active"` // in the active file, which stays as it is
}

// Erase erases, in the closed files of a directory, each record for which the function since returns a number that is not
// 0. A void line of the same length with this number takes its place, so places in the files stay valid. It has the
// event's id, the host and the outcome of the record, and nothing else. A file is replaced as a whole, so it has either
// all old lines or none. A process may write the active file meanwhile, and pack closed ones. An Erase that was interrupted
// can be repeated. If dry is set, Erase only counts.
func Erase(ctx context.Context, dir string, dry bool, since func(line []byte) uint64) (sum Erased, err error) {
	r := Reader{Dir: dir}
	if !dry {
		lock, err := durable.Lock(vfs.Default, r.path("erase.lock"))
		if err != nil {
			return sum, fmt.Errorf("record: another process erases lines in %s: %w", dir, err)
		}
		defer lock.Close()
	}
	numbers, err := r.closedNumbers()
	if err != nil {
		return sum, err
	}
	for _, n := range numbers {
		count, err := r.eraseClosed(ctx, n, dry, since)
		if err != nil {
			return sum, err
		}
		sum.Closed += count
	}
	active, err := r.openFile(r.Series.active(), 0)
	if active == nil || err != nil {
		return sum, err
	}
	defer active.Close()
	for {
		l, err := active.next()
		if errors.Is(err, io.EOF) {
			return sum, nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return sum, err
		}
		if since(l.text) > 0 {
			sum.Active++
		}
	}
}

// packTime is how long eraseClosed waits for a file that is being packed.
const packTime = 2 * time.Minute

// eraseClosed erases lines of one closed file, whatever form it has. It waits while a process packs the file: the packed
// form would have the old lines.
func (r Reader) eraseClosed(ctx context.Context, number int, dry bool, since func([]byte) uint64) (count uint64, err error) {
	plain := r.path(r.Series.closed(number))
	for begun := time.Now(); ; {
		name := plain
		if _, err := os.Stat(plain + zstdSuffix); err == nil {
			name += zstdSuffix
		}
		edits, err := r.editsOf(ctx, name, number, since)
		count = max(count, uint64(len(edits)))
		switch {
		case errors.Is(err, os.ErrNotExist) && name == plain: // it has just been packed
			continue
		case err != nil || dry:
			return count, err
		case len(edits) > 0:
			err = rewrite(name, edits)
		}
		if err != nil {
			return count, fmt.Errorf("record: erase lines of %s: %w", name, err)
		}
		crash.Point("erased file")
		packing := packs(plain)
		if !packing {
			_, err := os.Stat(plain + zstdSuffix)
			if packed := err == nil; packed == (name != plain) {
				return count, nil
			}
			continue // it was packed meanwhile, perhaps with the old lines
		}
		if time.Since(begun) > packTime {
			return count, fmt.Errorf("record: %s is being packed: repeat this later", plain)
		}
		select {
		case <-ctx.Done():
			return count, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// packs reports whether a process packs a closed file now. A process that died while it did does not count.
func packs(plain string) bool {
	info, err := os.Stat(plain + zstdSuffix + durable.NewSuffix)
	_, plainErr := os.Stat(plain)
	return err == nil && plainErr == nil && time.Since(info.ModTime()) < packTime/2
}

// edit is a line with its offset.
type edit struct {
	offset int64
	line   []byte
}

// editsOf returns the lines that are to be written over those of a file.
func (r Reader) editsOf(ctx context.Context, name string, number int, since func([]byte) uint64) (edits []edit, err error) {
	f, err := r.openFile(filepath.Base(name), number)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, os.ErrNotExist
	}
	defer f.Close()
	for {
		l, err := f.next()
		if errors.Is(err, io.EOF) {
			return edits, nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		n := since(l.text)
		if n == 0 {
			continue
		}
		void, err := erasedLine(l.text, n)
		if err != nil {
			return nil, l.fault(err)
		}
		edits = append(edits, edit{l.at.Offset, void})
	}
}

// rewrite replaces a file, packed or not, by one with the given lines.
func rewrite(name string, edits []edit) error {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	packed := filepath.Ext(name) == zstdSuffix
	old := io.Reader(in)
	if packed {
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return err
		}
		defer z.Close()
		old = z
	}
	crash.Point("erase file")
	return durable.Replace(vfs.Default, name, func(w io.Writer) error {
		if !packed {
			return copyEdited(w, old, edits)
		}
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		return errors.Join(copyEdited(z, old, edits), z.Close())
	})
}

// copyEdited copies old to w, with the lines of edits in place of its own.
func copyEdited(w io.Writer, old io.Reader, edits []edit) error {
	at := int64(0)
	for _, e := range edits {
		_, err1 := io.CopyN(w, old, e.offset-at)
		_, err2 := w.Write(e.line)
		_, err3 := io.CopyN(io.Discard, old, int64(len(e.line)))
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		at = e.offset + int64(len(e.line))
	}
	_, err := io.Copy(w, old)
	return err
}

// erasedLine returns the void line that takes the place of a record's line.
func erasedLine(line []byte, since uint64) ([]byte, error) {
	var r struct {
		Host    string `json:"host"`
		Outcome string `json:"outcome"`
		Status  int    `json:"status,omitempty"`
		Check   string `json:"check,omitempty"`
		ID      string `json:"id"`
		Round   int    `json:"round"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	kept, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	end := []byte("}\n")
	if at := bytes.LastIndex(line, []byte(itemKey)); at >= 0 {
		end = line[at:]
	}
	head := append(strconv.AppendUint([]byte(erasedKey), since, 10), ',')
	spaces := len(line) - len(voidPrefix) - len(head) - (len(kept) - len("{}")) - len(end)
	if spaces < 0 {
		return nil, errors.New("the line is too short to be a record")
	}
	void := append([]byte(voidPrefix), bytes.Repeat([]byte(" "), spaces)...)
	return append(append(append(void, head...), kept[1:len(kept)-1]...), end...), nil
}
