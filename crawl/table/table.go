// Package table writes records, which are lines of JSON, as JSON lines, CSV or Parquet.
// The caller chooses the columns, and a condition selects the records.
//
// It owns the types of columns, the conditions of --where and the formats. It does not
// open files, except a temporary file for sorting: its source is an iterator of lines. It reads one
// line at a time and needs memory for one row group of Parquet.
package table

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// Format is a file format.
type Format string

// Formats.
const (
	JSONL   Format = "jsonl"   // one JSON object a line
	CSV     Format = "csv"     // RFC 4180 with a header, safe to open in a spreadsheet
	Parquet Format = "parquet" // columns with types
	Text    Format = "text"    // aligned columns for people
)

// Table says what to write.
type Table struct {
	Schema  *Schema    // the schema of the lines; required
	Format  Format     // empty means JSONL
	Columns []Column   // empty means all columns: see Write
	Where   *Condition // nil selects every record
	Sort    []SortKey  // empty means the order of the source
	Limit   uint64     // maximum number of records; 0 means no limit
	Temp    string     // directory for the temporary file of Sort; empty means the system's

	// Width is the maximum width of a line of Text, in columns of a terminal; 0 means no limit. Text cuts cells to
	// 8 columns at least, so that lines of many cells can be wider.
	Width int
	// Total returns the last line of Text; nil means that there is none. The argument rows is the number of
	// records that were written, and sum is the sum of their column Sum, which must be of the kind Int.
	Total func(rows, sum uint64) string
	Sum   string
}

// Lines yields records as lines of JSON. A line is valid until the next one is read.
type Lines = iter.Seq2[[]byte, error]

// Write writes the selected records of source to w.
//
// If Columns is empty, JSONL output has the lines unchanged. For CSV and Parquet, the
// columns are those of the schema. A member of the schema that is an object, such as
// fields, is replaced by one column for each member of the object. The last columns are
// for members of the selected records that the schema does not have. To find these members,
// Write first reads the whole source. If Columns is not empty, Write does this only to find
// the types of columns of the kind Any for Parquet. ReadsTwice reports both cases.
//
// If Sort is not empty, Write reads the source once more, before all else, and keeps up to 64 MiB of
// the selected lines in memory. More of them go to a temporary file, unless Limit makes them
// superfluous.
func (t Table) Write(source func() Lines, w io.Writer) (err error) {
	t.Format = cmp.Or(t.Format, JSONL)
	if len(t.Sort) > 0 {
		sorted, err := t.sorted(source())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, sorted.close()) }()
		source, t.Where = sorted.lines, nil
	}
	columns, err := t.resolve(source)
	if err != nil {
		return err
	}
	if t.Format == JSONL && len(columns) == 0 {
		return t.copyLines(source(), w)
	}
	out, err := t.newWriter(w, columns)
	if err != nil {
		return err
	}
	var rows, sum uint64
	row := make([]any, len(columns))
	for r, err := range t.selected(source(), true) {
		if err != nil {
			return err
		}
		for i, c := range columns {
			cell, fits := c.Kind.cell(r.value(c.Name))
			if !fits {
				return fmt.Errorf("table: %s of %v is %s, which is no %s", c.Name, r.value("url"), jsonText(r.value(c.Name)), c.Kind)
			}
			row[i] = cell
		}
		if err := out.write(row); err != nil {
			return fmt.Errorf("table: write %s: %w", t.Format, err)
		}
		if rows++; t.Sum != "" {
			n, _ := Int.cell(r.value(t.Sum))
			of, _ := n.(int64)
			sum += uint64(of)
		}
	}
	if text, is := out.(*textRows); is && t.Total != nil {
		text.total = t.Total(rows, sum)
	}
	if err := out.close(); err != nil {
		return fmt.Errorf("table: write %s: %w", t.Format, err)
	}
	return nil
}

// Select yields the lines that the condition selects. A nil condition selects all.
func (s *Schema) Select(lines Lines, where *Condition) Lines {
	return func(yield func([]byte, error) bool) {
		for r, err := range (Table{Schema: s, Where: where}).selected(lines, true) {
			if !yield(r.line, err) || err != nil {
				return
			}
		}
	}
}

// ReadsTwice reports whether Write reads its source twice. Both readings must then have the
// same lines. Otherwise Write leaves out members that only the second reading has.
func (t Table) ReadsTwice() bool {
	if len(t.Columns) == 0 {
		return cmp.Or(t.Format, JSONL) != JSONL && t.Schema.open
	}
	return t.Format == Parquet && slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Kind == Any })
}

// copyLines copies the selected lines as they are.
func (t Table) copyLines(lines Lines, w io.Writer) error {
	out := newBuffer(w)
	for r, err := range t.selected(lines, t.Where != nil) {
		if err == nil {
			_, err = out.Write(r.line)
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// selected yields the records that the condition selects. If parsed is false, a row has
// only its line; there must then be no condition.
func (t Table) selected(lines Lines, parsed bool) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		r, n, left := row{derive: t.Schema.derive}, uint64(0), t.Limit
		for line, err := range lines {
			r.line = line
			n++
			if err == nil && parsed {
				err = r.read(line, n)
			}
			if err == nil && t.Where != nil && !t.Where.holds(&r) {
				continue
			}
			if !yield(&r, err) || err != nil {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// writer writes rows in one format. A cell is nil, string, int64, float64, bool,
// time.Time or json.RawMessage.
type writer interface {
	write(row []any) error
	close() error
}

func (t Table) newWriter(w io.Writer, columns []Column) (writer, error) {
	switch t.Format {
	case JSONL:
		return newJSONL(w, columns), nil
	case CSV:
		return newCSV(w, columns)
	case Parquet:
		return newParquet(w, columns), nil
	case Text:
		return newText(w, columns, t.Width), nil
	}
	return nil, errors.New("table: Format is " + string(t.Format) + ", want jsonl, csv, parquet or text")
}
