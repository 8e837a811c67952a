package table

import (
	"bufio"
	"encoding/json"
	"io"
	"time"
)

func newBuffer(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, 256<<10) }

// jsonLines writes an object with one member for each cell that is not empty.
type jsonLines struct {
	out   *bufio.Writer
	names []string // names of columns as JSON, each with a colon
}

func newJSONL(w io.Writer, columns []Column) *jsonLines {
	j := &jsonLines{out: newBuffer(w)}
	for _, c := range columns {
		j.names = append(j.names, jsonText(c.Name)+":")
	}
	return j
}

func (j *jsonLines) write(row []any) error {
	begin := "{"
	for i, cell := range row {
		if cell == nil {
			continue
		}
		if _, err := j.out.WriteString(begin + j.names[i]); err != nil {
			return err
		}
		text := ""
		switch cell := cell.(type) {
		case json.RawMessage:
			text = string(cell)
		case time.Time:
			text = jsonText(cell.Format(time.RFC3339Nano))
		default:
			text = jsonText(cell)
		}
		if _, err := j.out.WriteString(text); err != nil {
			return err
		}
		begin = ","
	}
	if begin == "{" {
		_, _ = j.out.WriteString(begin) // the next WriteString returns the error
	}
	_, err := j.out.WriteString("}\n")
	return err
}

func (j *jsonLines) close() error { return j.out.Flush() }
