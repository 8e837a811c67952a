package table

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// row is a record. It is valid until the next one is read. Its values are parsed when
// they are used.
type row struct {
	line    []byte
	members []member
	derive  func(r *row, name string) any
}

type member struct {
	name  string
	value []byte // JSON, a part of the line
}

// read replaces the members by those of a line.
func (r *row) read(line []byte, number uint64) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' || !json.Valid(line) {
		return fmt.Errorf("table: record %d is not a JSON object: %.100q", number, line)
	}
	r.members = appendMembers(r.members[:0], line)
	return nil
}

// value returns the value of a column: a string, a json.Number, a bool or, for an object
// or a list, a json.RawMessage. It is nil if the record has no such member. A name with
// dots is the name of a member, or the path to a member of a member.
func (r *row) value(name string) any {
	v := find(r.members, name)
	if v == nil && r.derive != nil {
		return r.derive(r, name)
	}
	return v
}

func find(members []member, name string) any {
	for _, m := range members {
		if m.name == name {
			return valueOf(m.value)
		}
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		for _, m := range members {
			if m.name == name[:i] && m.value[0] == '{' {
				if v := find(appendMembers(nil, m.value), name[i+1:]); v != nil {
					return v
				}
			}
		}
	}
	return nil
}

func valueOf(text []byte) any {
	switch text[0] {
	case '"':
		return unquoted(text)
	case 'n':
		return nil
	case 't', 'f':
		return text[0] == 't'
	case '{', '[':
		return json.RawMessage(text)
	}
	return json.Number(text)
}

// unquoted returns the text of a JSON string.
func unquoted(text []byte) string {
	inner := text[1 : len(text)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(bytes.ToValidUTF8(inner, []byte("\uFFFD")))
	}
	var s string
	_ = json.Unmarshal(text, &s) // this cannot fail: text is a valid string
	return s
}

// appendMembers appends the members of an object to members. The object must be valid
// JSON.
func appendMembers(members []member, object []byte) []member {
	for at := skipSpace(object, 1); object[at] != '}'; {
		end := skipValue(object, at)
		name := unquoted(object[at:end])
		at = skipSpace(object, end) + 1 // skip the colon
		at = skipSpace(object, at)
		end = skipValue(object, at)
		members = append(members, member{name, object[at:end]})
		if at = skipSpace(object, end); object[at] == ',' {
			at = skipSpace(object, at+1)
		}
	}
	return members
}

func skipSpace(text []byte, at int) int {
	for text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n' {
		at++
	}
	return at
}

// skipValue returns the end of the value that begins at text[at].
func skipValue(text []byte, at int) int {
	switch text[at] {
	case '"':
		for {
			at++
			switch i := bytes.IndexAny(text[at:], `"\`); {
			case text[at+i] == '"':
				return at + i + 1
			default:
				at += i + 1 // skip the character after the backslash
			}
		}
	case '{', '[':
		for depth := 0; ; at++ {
			switch text[at] {
			case '"':
				at = skipValue(text, at) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return at + 1
				}
			}
		}
	}
	for at < len(text) && bytes.IndexByte([]byte(",]} \t\r\n"), text[at]) < 0 {
		at++
	}
	return at
}
