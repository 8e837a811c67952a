package table

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxColumns is the largest number of columns of a table.
const MaxColumns = 2000

// resolve returns the columns to write, with their kinds if the format needs them. It
// returns no columns if JSON lines are written unchanged.
func (t Table) resolve(source func() Lines) ([]Column, error) {
	for i, c := range t.Columns {
		if slices.ContainsFunc(t.Columns[:i], func(other Column) bool { return other.Name == c.Name }) {
			return nil, fmt.Errorf("table: column %s is named twice", c.Name)
		}
	}
	switch {
	case len(t.Columns) > MaxColumns:
		return nil, fmt.Errorf("table: %d columns, want %d at most", len(t.Columns), MaxColumns)
	case len(t.Columns) == 0 && t.ReadsTwice():
		return t.discover(source())
	case len(t.Columns) == 0 && t.Format != JSONL:
		return t.Schema.columns, nil
	case !t.ReadsTwice():
		return t.Columns, nil
	}
	found := make(map[string]Kind)
	for r, err := range t.selected(source(), true) {
		if err != nil {
			return nil, err
		}
		for _, c := range t.Columns {
			if c.Kind == Any {
				found[c.Name] = found[c.Name].widened(r.value(c.Name))
			}
		}
	}
	columns := slices.Clone(t.Columns)
	for i, c := range columns {
		if c.Kind == Any {
			columns[i].Kind = cmp.Or(found[c.Name], String)
		}
	}
	return columns, nil
}

// discover returns the columns of the schema, and one for each other member of the
// selected records.
func (t Table) discover(lines Lines) ([]Column, error) {
	found := make(map[string]Kind)
	whole := make(map[string]bool) // members of t.Schema.objects whose value in some record is neither an object nor null
	for r, err := range t.selected(lines, true) {
		if err != nil {
			return nil, err
		}
		for _, m := range r.members {
			switch {
			case !slices.Contains(t.Schema.objects, m.name):
				if !t.Schema.has(m.name) {
					found[m.name] = found[m.name].widened(valueOf(m.value))
				}
			case m.value[0] == '{':
				for _, inner := range appendMembers(nil, m.value) {
					path := m.name + "." + inner.name
					found[path] = found[path].widened(valueOf(inner.value))
				}
			case valueOf(m.value) != nil:
				whole[m.name] = true
			}
		}
		if len(found) > MaxColumns {
			return nil, fmt.Errorf("table: more than %d columns: name those that are wanted", MaxColumns)
		}
	}
	return t.Schema.arrange(found, whole), nil
}

// arrange returns the columns of the schema, with objects replaced by their members,
// and then the other columns of found. Members and other columns are sorted by name.
// An object whose name is in the map whole is not replaced.
func (s *Schema) arrange(found map[string]Kind, whole map[string]bool) (columns []Column) {
	names := slices.Sorted(maps.Keys(found))
	for _, c := range s.columns {
		if !slices.Contains(s.objects, c.Name) || whole[c.Name] {
			columns = append(columns, c)
			continue
		}
		for _, name := range names {
			if strings.HasPrefix(name, c.Name+".") {
				columns = append(columns, Column{name, cmp.Or(found[name], String)})
			}
		}
	}
	for _, name := range names {
		object, _, _ := strings.Cut(name, ".")
		if !slices.Contains(s.objects, object) {
			columns = append(columns, Column{name, cmp.Or(found[name], String)})
		}
	}
	return columns
}

// widened returns the narrowest kind that holds all values of kind k and the value v.
// If k is Any, the column had no value before v.
func (k Kind) widened(v any) Kind {
	kind := JSON
	switch v := v.(type) {
	case nil:
		return k
	case string:
		kind = String
	case bool:
		kind = Bool
	case json.Number:
		if _, err := v.Int64(); err == nil {
			kind = Int
		} else if _, fits := number(v); fits { // 1e400 does not
			kind = Float
		}
	}
	switch {
	case k == Any, k == kind:
		return kind
	case k == Int && kind == Float, k == Float && kind == Int:
		return Float
	}
	return JSON
}
