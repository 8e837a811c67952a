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
// outcome. The columns train_ai, ai_use and search are derived from the member preferences, and are
// unknown without it.
func Records() *Schema {
	s := schemaOf(reflect.TypeFor[record.Record]())
	s.open = true
	s.others = []string{"state", "referrer", "fingerprint", "lease", "train_ai", "ai_use", "search"}
	s.derive = func(r *row, name string) any {
		switch name {
		case "state":
			outcome, _ := r.value("outcome").(string)
			return string(frontier.Outcome(outcome).State())
		case "train_ai", "ai_use", "search":
			if answer := r.value("preferences." + name); answer != nil {
				return answer
			}
			return "unknown"
		}
		return nil
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

// Column returns the column with this name, which can be a path into an object, as in
// fields.price.
func (s *Schema) Column(name string) (Column, error) {
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

// cell returns a value as a cell of a column of this kind. The result fits is false if the kind
// cannot hold the value.
func (k Kind) cell(v any) (cell any, fits bool) {
	if v == nil {
		return nil, true
	}
	var err error
	switch k {
	case String:
		return plainText(v), true
	case JSON:
		return rawJSON(v), true
	case Int:
		cell, err = strconv.ParseInt(plainText(v), 10, 64)
	case Float:
		return number(v)
	case Bool:
		cell, fits = v.(bool)
		return cell, fits
	case Time:
		cell, err = parseTime(plainText(v))
	default:
		switch v.(type) {
		case string, bool:
			return v, true
		}
		return rawJSON(v), true
	}
	return cell, err == nil
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

// number returns v as a number, even if v is a text that contains a number. The second
// result is false if v is not a number, or is infinity or NaN.
func number(v any) (f float64, is bool) {
	if _, boolean := v.(bool); boolean {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(plainText(v)), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

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
