package table

import (
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"
)

// A row group ends after groupRows rows or groupBytes bytes of cells. The group is in
// memory until it ends.
const (
	groupRows  = 1 << 17
	groupBytes = 32 << 20
)

// parquetRows writes optional columns, compressed with zstd.
type parquetRows struct {
	out   *parquet.GenericWriter[any]
	row   parquet.Row
	rows  int // rows in the current group
	bytes int // bytes of cells in the current group
}

func newParquet(w io.Writer, columns []Column) *parquetRows {
	schema := parquet.NewSchema("record", orderedGroup(columns))
	return &parquetRows{
		out: parquet.NewGenericWriter[any](w, schema, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("crawler", "", "")),
		row: make(parquet.Row, len(columns)),
	}
}

// ordered is a group whose fields keep the order of the columns.
type ordered struct {
	parquet.Group
	fields []parquet.Field
}

func (o *ordered) Fields() []parquet.Field { return o.fields }

func orderedGroup(columns []Column) *ordered {
	o := &ordered{Group: make(parquet.Group)}
	for _, c := range columns {
		o.Group[c.Name] = parquet.Optional(leaf(c.Kind))
	}
	byName := o.Group.Fields()
	for _, c := range columns {
		i := slices.IndexFunc(byName, func(f parquet.Field) bool { return f.Name() == c.Name })
		o.fields = append(o.fields, byName[i])
	}
	return o
}

func leaf(k Kind) parquet.Node {
	switch k {
	case Int:
		return parquet.Int(64)
	case Float:
		return parquet.Leaf(parquet.DoubleType)
	case Bool:
		return parquet.Leaf(parquet.BooleanType)
	case Time:
		return parquet.Timestamp(parquet.Microsecond)
	case JSON:
		return parquet.JSON()
	}
	return parquet.String()
}

func (p *parquetRows) write(row []any) error {
	for i, cell := range row {
		value, size := parquet.NullValue(), 0
		switch cell := cell.(type) {
		case string:
			value, size = parquet.ByteArrayValue([]byte(cell)), len(cell)
		case json.RawMessage:
			value, size = parquet.ByteArrayValue(cell), len(cell)
		case int64:
			value = parquet.Int64Value(cell)
		case float64:
			value = parquet.DoubleValue(cell)
		case bool:
			value = parquet.BooleanValue(cell)
		case time.Time:
			value = parquet.Int64Value(cell.UnixMicro())
		}
		present := 0
		if cell != nil {
			present = 1
		}
		p.row[i] = value.Level(0, present, i)
		p.bytes += size + 8
	}
	if _, err := p.out.WriteRows([]parquet.Row{p.row}); err != nil {
		return err
	}
	if p.rows++; p.rows < groupRows && p.bytes < groupBytes {
		return nil
	}
	p.rows, p.bytes = 0, 0
	return p.out.Flush()
}

func (p *parquetRows) close() error { return p.out.Close() }
