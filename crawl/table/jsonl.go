package table

import (
	"bufio"
	"io"
	"time"
)

func newBuffer(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, 256<<10) }

// jsonLines writes each row as an object with one member for each cell that is not empty.
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
		if t, is := cell.(time.Time); is {
			cell = t.Format(time.RFC3339Nano)
		}
		_, _ = j.out.WriteString(begin + j.names[i]) // the last WriteString returns the first error
		_, _ = j.out.Write(rawJSON(cell))
		begin = ","
	}
	end := "}\n"
	if begin == "{" {
		end = "{}\n"
	}
	_, err := j.out.WriteString(end)
	return err
}

func (j *jsonLines) close() error { return j.out.Flush() }
