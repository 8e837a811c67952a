package fields

import (
	"encoding/json"
	"fmt"

	"golang.org/x/net/html"
)

// Page is a document from which fields are extracted.
type Page struct {
	Root *html.Node // of the whole document; it is not changed
	Base string     // absolute URL that references are relative to
	// GiveUp is called once for every few elements. When it returns true, the extraction stops.
	// It is optional.
	GiveUp func() bool
}

// Found is the result for one field.
type Found struct {
	Name     string
	All      bool              // the field has an array of values
	Values   []json.RawMessage // texts or numbers; at most one unless All
	Required bool
	Cut      bool   // some values, or the end of a text, were left out because of MaxFieldBytes or MaxPageBytes
	Why      string // why there is no value; empty if there is one
}

// Extract extracts the fields of the set from a page. The results are in the order of the
// set.
func (s *Set) Extract(p Page) []Found {
	t := &tree{Page: p}
	all := make([]Found, len(s.fields))
	room := MaxPageBytes
	for i := range s.fields {
		all[i] = s.fields[i].extract(t, &room)
	}
	return all
}

// extract extracts one field, and subtracts the bytes of its values from *room.
func (f *field) extract(t *tree, room *int) Found {
	found := Found{Name: f.name, All: f.all, Required: f.required}
	left := min(MaxFieldBytes, *room)
	for _, s := range f.sources {
		if t.over {
			found.Why = "no time was left for it"
			return found
		}
		values, misfit := 0, ""
		reason := s.from.find(t, func(text string) (more bool) {
			values++
			shaped, ok := f.form.shape(text, t.Base, s.url)
			if !ok {
				misfit = text
				return true
			}
			size := f.add(&found, shaped, s.url, left)
			left -= size
			*room -= size
			return f.all && size > 0
		})
		switch {
		case len(found.Values) > 0:
			found.Why, found.Cut = "", found.Cut || t.over && f.all
			return found
		case t.over:
			found.Why = "no time was left for it"
			return found
		case found.Cut:
			found.Why = "no room was left for it"
			return found
		case values > 0:
			wanted := f.form.kind
			if wanted == plain && s.url {
				wanted = reference
			}
			reason = fmt.Sprintf("%s: %q is no %s", s.text, cut(collapse(misfit), 60), wanted)
		default:
			reason = s.text + ": " + reason
		}
		if found.Why != "" {
			reason = found.Why + "; " + reason
		}
		found.Why = reason
	}
	return found
}

// add adds a value if it takes at most room bytes. It returns the size of the value, or
// 0 if the value does not fit. If the first value is a text that is too long, add cuts
// it.
func (f *field) add(found *Found, text string, isURL bool, room int) (size int) {
	const least = 16 // a text that must be cut to fewer bytes is left out
	value, short := []byte(text), false
	if f.form.kind != number {
		value, short = encode(text, max(room, least))
	}
	found.Cut = found.Cut || short
	if room < least || len(value) > room+2 || short && (f.form.whole(isURL) || len(found.Values) > 0) {
		found.Cut = true
		return 0
	}
	found.Values = append(found.Values, value)
	return len(value) + 1
}

// String returns the word for a value of the kind.
func (k kind) String() string {
	return [...]string{"text", "text", "number", "date", "URL"}[k]
}

// JSON returns an object with the fields that have values, in the order of the
// slice all. It returns nil if no field has a value.
func JSON(all []Found) json.RawMessage {
	var object []byte
	for _, f := range all {
		if len(f.Values) == 0 {
			continue
		}
		object = append(object, ',')
		name, _ := json.Marshal(f.Name) // encoding a string does not fail
		object = append(append(object, name...), ':')
		if !f.All {
			object = append(object, f.Values[0]...)
			continue
		}
		object = append(object, '[')
		for _, v := range f.Values {
			object = append(append(object, v...), ',')
		}
		object[len(object)-1] = ']'
	}
	if object == nil {
		return nil
	}
	object[0] = '{'
	return append(object, '}')
}

// Missing returns the names of required fields without a value.
func Missing(all []Found) []string {
	return names(all, func(f *Found) bool { return f.Required && len(f.Values) == 0 })
}

// Cut returns the names of fields that are incomplete.
func Cut(all []Found) []string { return names(all, func(f *Found) bool { return f.Cut }) }

func names(all []Found, wanted func(*Found) bool) (names []string) {
	for i := range all {
		if wanted(&all[i]) {
			names = append(names, all[i].Name)
		}
	}
	return names
}

// Text returns one of Values as text, without the quotes of JSON.
func (f *Found) Text(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil { // a number
		return string(value)
	}
	return text
}
