package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// Kind is the type of a column.
type Kind uint8

// Kinds. The zero Kind is Any.
const (
	Any    Kind = iota // any type; in Parquet, the type is chosen from the data
	String             // text
	Int                // whole numbers of 64 bits
	Float              // numbers of 64 bits
	Bool               // true or false
	Time               // times, to the microsecond
	JSON               // any value as JSON text
)

var kindNames = [...]string{"any", "string", "int", "float", "bool", "time", "json"}

func (k Kind) String() string { return kindNames[k] }

// Column is a column of a table. Its name is the name of a member of the record, or a
// path to a member of a member, with dots, as in fields.price.
type Column struct {
	Name string
	Kind Kind
}

// Schema describes the members of the lines.
type Schema struct {
	columns []Column
	objects []string                      // members whose own members are columns, such as fields
	others  []string                      // text members of some records, which are not columns by default
	derive  func(r *row, name string) any // computes a value that a record does not have; nil means none
	open    bool                          // lines can have members that are not in columns
}

// Records returns the schema of records: the fields of record.Record, in the same order.
// The additional column state has the value done or failed. It is derived from the column
// outcome.
func Records() *Schema {
	s := schemaOf(reflect.TypeFor[record.Record]())
	s.open = true
	s.others = []string{"state", "referrer", "fingerprint", "lease"}
	s.derive = func(r *row, name string) any {
		if name != "state" {
			return nil
		}
		outcome, _ := r.value("outcome").(string)
		return string(frontier.Outcome(outcome).State())
	}
	return s
}

// SchemaOf returns the schema of lines that are values of the struct T. The columns are
// its fields, with their JSON names.
func SchemaOf[T any]() *Schema { return schemaOf(reflect.TypeFor[T]()) }

func schemaOf(t reflect.Type) *Schema {
	s := new(Schema)
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		kind := kindOf(field.Type)
		s.columns = append(s.columns, Column{name, kind})
		if list := field.Type.Kind() == reflect.Slice && field.Type != reflect.TypeFor[json.RawMessage](); kind == JSON && !list {
			s.objects = append(s.objects, name)
		}
	}
	return s
}

func kindOf(t reflect.Type) Kind {
	if t == reflect.TypeFor[time.Time]() {
		return Time
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.String:
		return String
	case reflect.Bool:
		return Bool
	case reflect.Float32, reflect.Float64:
		return Float
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Int
	}
	return JSON
}

// Names returns the names of the columns.
func (s *Schema) Names() (names []string) {
	for _, c := range s.columns {
		names = append(names, c.Name)
	}
	return append(names, s.others...)
}

// has reports whether the schema has a column of that name.
func (s *Schema) has(name string) bool {
	return slices.ContainsFunc(s.columns, func(c Column) bool { return c.Name == name })
}

// find returns the column with this name, which can be a path into an object.
func (s *Schema) find(name string) (Column, error) {
	for _, c := range s.columns {
		if c.Name == name {
			return c, nil
		}
	}
	if slices.Contains(s.others, name) {
		return Column{name, String}, nil
	}
	for _, object := range s.objects {
		if path, inside := strings.CutPrefix(name, object+"."); inside && path != "" {
			return Column{Name: name}, nil
		}
	}
	return Column{}, fmt.Errorf("no column %q: want %s%s", name, strings.Join(s.Names(), ", "), s.paths())
}

// paths returns a text that ends a list of column names. It says that members of objects
// are columns too.
func (s *Schema) paths() string {
	if len(s.objects) == 0 {
		return ""
	}
	return ", or a member such as " + s.objects[0] + ".NAME"
}

// Column parses NAME or NAME:KIND, as in status, fields.price or fields.price:float.
func (s *Schema) Column(text string) (Column, error) {
	name, kind := text, Any
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		k := slices.Index(kindNames[:], text[i+1:])
		if k <= int(Any) {
			return Column{}, fmt.Errorf("%q: no kind %q: want %s", text, text[i+1:], strings.Join(kindNames[1:], ", "))
		}
		name, kind = text[:i], Kind(k)
	}
	c, err := s.find(name)
	if kind != Any {
		c.Kind = kind
	}
	return c, err
}

// convert returns a value as a cell of a column of this kind. The second result is false
// if the kind cannot hold the value.
func (k Kind) convert(v any) (cell any, fits bool) {
	if v == nil {
		return nil, true
	}
	switch k {
	case String:
		return plainText(v), true
	case JSON:
		return rawJSON(v), true
	case Int:
		n, err := strconv.ParseInt(trimmed(v), 10, 64)
		if f, is := number(v); err != nil && is && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			n, err = int64(f), nil // 1e3 and 2.0 are whole numbers
		}
		return cellOf(n, err)
	case Float:
		f, is := number(v)
		if !is {
			return nil, false
		}
		return f, true
	case Bool:
		b, err := strconv.ParseBool(trimmed(v))
		return cellOf(b, err)
	case Time:
		t, err := parseTime(trimmed(v))
		return cellOf(t, err)
	}
	switch v.(type) {
	case string, bool:
		return v, true
	}
	return rawJSON(v), true
}

// rawJSON returns a value as JSON.
func rawJSON(v any) json.RawMessage {
	switch v := v.(type) {
	case json.RawMessage:
		return v
	case json.Number:
		return json.RawMessage(v)
	}
	return json.RawMessage(jsonText(v))
}

func cellOf(cell any, err error) (any, bool) {
	if err != nil {
		return nil, false
	}
	return cell, true
}

// number returns v as a number, even if v is a text that contains a number. The second
// result is false if v is not a number, or is infinity or NaN.
func number(v any) (f float64, is bool) {
	if _, boolean := v.(bool); boolean {
		return 0, false
	}
	f, err := strconv.ParseFloat(trimmed(v), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

func trimmed(v any) string { return strings.TrimSpace(plainText(v)) }

// plainText returns a value as text: a string unchanged, another value as JSON.
func plainText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case json.RawMessage:
		return string(v)
	}
	return jsonText(v)
}

func jsonText(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // this cannot fail: v was decoded from JSON
	return strings.TrimSuffix(b.String(), "\n")
}

// parseTime parses a time of RFC 3339, or a date, which means its first moment in UTC. A
// time without a zone is in UTC.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, errors.New("no time")
}
