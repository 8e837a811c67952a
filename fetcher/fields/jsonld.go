package fields

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// maxScriptBytes bounds the JSON-LD that is read from a page, because parsed JSON may
// take thirty times the memory of its text.
const maxScriptBytes = 256 << 10

// readScript parses a script if it is JSON-LD. If its text is longer than *room bytes
// or is damaged, it stores the reason in t.broken. It ignores other scripts.
func (t *tree) readScript(n *html.Node, room *int) {
	kind, _ := attribute(n, "type")
	kind, _, _ = strings.Cut(kind, ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "application/ld+json") || n.FirstChild == nil {
		return
	}
	text := n.FirstChild.Data
	if len(text) > *room {
		t.broken = "the page has more JSON-LD than is read"
		return
	}
	*room -= len(text)
	value, err := parseScript(text)
	if err != nil {
		t.broken = "the JSON-LD of the page is damaged: " + err.Error()
		return
	}
	t.scripts = append(t.scripts, value)
}

// commentMarks removes the marks that hide a script from old browsers.
var commentMarks = strings.NewReplacer("<![CDATA[", "", "]]>", "", "<!--", "", "-->", "")

// parseScript parses one script. It accepts comment marks around the script and line
// breaks in its strings.
func parseScript(text string) (value any, err error) {
	if value, err = decode(text); err == nil {
		return value, nil
	}
	text = commentMarks.Replace(text)
	begin, end := strings.IndexAny(text, "{["), strings.LastIndexAny(text, "}]")
	if begin < 0 || end < begin {
		return nil, err
	}
	mended := strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text[begin:end+1])
	if value, again := decode(mended); again == nil {
		return value, nil
	}
	return nil, err
}

// decode parses JSON. Numbers keep their text.
func decode(text string) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if err = d.Decode(&value); err == nil && d.More() {
		err = json.Unmarshal([]byte(text), &value) // for its more precise error
	}
	return value, err
}

// jsonPath finds values in JSON-LD.
type jsonPath struct{ path }

func (j *jsonPath) find(t *tree, yield func(string) bool) (reason string) {
	t.index()
	for _, item := range j.items(t.scripts) {
		if !follow(item, j.keys, yield) {
			break
		}
	}
	switch {
	case t.broken != "":
		return t.broken
	case len(t.scripts) == 0:
		return "the page has no JSON-LD"
	}
	return "no such property in the JSON-LD of the page"
}

// items returns the objects at which the path begins. If the path has a type, these are all
// objects of that type, outer ones first. Otherwise they are the outermost objects and the
// objects in their @graph.
func (j *jsonPath) items(level []any) (items []map[string]any) {
	for outer := true; len(level) > 0; {
		var below []any
		for _, value := range level {
			switch v := value.(type) {
			case []any:
				below = append(below, v...)
			case map[string]any:
				if j.kind == "" && outer || j.kind != "" && hasKind(v["@type"], j.kind) {
					items = append(items, v)
				}
				if graph, ok := v["@graph"]; ok && j.kind == "" {
					below = append(below, graph)
				}
				if j.kind != "" {
					for _, key := range slices.Sorted(maps.Keys(v)) {
						below = append(below, v[key])
					}
				}
			}
		}
		level = below
	}
	return items
}

// hasKind reports whether the value of @type names kind.
func hasKind(value any, kind string) bool {
	switch v := value.(type) {
	case string:
		return isKind(v, kind)
	case []any:
		return slices.ContainsFunc(v, func(one any) bool { return hasKind(one, kind) })
	}
	return false
}

// follow looks up the first of keys in value, the next key in the result, and so on. In an
// array it does this for each element. It calls yield with each text that it finds for the
// last key. It returns false if yield returned false.
func follow(value any, keys []string, yield func(string) bool) (more bool) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			if !follow(one, keys, yield) {
				return false
			}
		}
	case map[string]any:
		if len(keys) > 0 {
			next, ok := v[keys[0]]
			return !ok || follow(next, keys[1:], yield)
		}
		for _, key := range []string{"@value", "name", "url", "@id"} { // the text of an object
			if text, ok := v[key].(string); ok {
				return yield(text)
			}
		}
	case string:
		return len(keys) > 0 || yield(v)
	case json.Number:
		return len(keys) > 0 || yield(v.String())
	case bool:
		return len(keys) > 0 || yield(map[bool]string{true: "true", false: "false"}[v])
	}
	return true
}
