package fields

import (
	"errors"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// structured lists the sources that are not selectors, each with its prefix.
var structured = []struct {
	prefix  string
	compile func(rest string) (finder, error)
}{
	{"meta:", func(rest string) (finder, error) { return newMeta(rest) }},
	{"og:", func(rest string) (finder, error) { return newMeta("og:" + rest) }},
	{"jsonld:", func(rest string) (finder, error) {
		p, err := parsePath(rest)
		return &jsonPath{p}, err
	}},
	{"microdata:", func(rest string) (finder, error) {
		p, err := parsePath(rest)
		return &microPath{p}, err
	}},
}

// meta finds the content of meta elements by name or property.
type meta struct{ name string }

func newMeta(name string) (*meta, error) {
	if name == "" || strings.HasSuffix(name, ":") || strings.ContainsAny(name, " \t\"'<>@") {
		return nil, errors.New("want the name of a meta element, such as description or og:title")
	}
	return &meta{name}, nil
}

func (m *meta) find(t *tree, yield func(string) bool) (reason string) {
	t.index()
	for _, n := range t.metas {
		for _, key := range []string{"property", "name", "itemprop", "http-equiv"} {
			name, _ := attribute(n, key)
			if content, ok := attribute(n, "content"); ok && strings.EqualFold(strings.TrimSpace(name), m.name) {
				if !yield(content) {
					return ""
				}
				break
			}
		}
	}
	return "no meta element has this name and content"
}

// path is the path to a property of structured data, such as Product.offers.price.
type path struct {
	kind string   // type of the item at which the path begins; empty means any item that is not the property of another
	keys []string // at least one
}

// parsePath parses a path. In schema.org, names of types begin with a capital letter,
// and those of properties do not.
func parsePath(text string) (p path, err error) {
	for i, name := range strings.Split(text, ".") {
		switch {
		case name == "" || strings.ContainsAny(name, " \t\"'<>|()[]"):
			return p, errors.New("want a path such as Product.offers.price or datePublished")
		case i == 0 && 'A' <= name[0] && name[0] <= 'Z':
			p.kind = name
		default:
			p.keys = append(p.keys, name)
		}
	}
	if p.keys == nil {
		return p, errors.New("want a property behind the type, such as " + p.kind + ".name")
	}
	return p, nil
}

// isKind reports whether the name of a type, such as https://schema.org/Product,
// is kind.
func isKind(name, kind string) bool {
	return name[strings.LastIndexAny(name, "/#:")+1:] == kind
}

// microPath finds properties in microdata.
type microPath struct{ path }

func (m *microPath) find(t *tree, yield func(string) bool) (reason string) {
	last := m.keys[len(m.keys)-1]
	t.index()
	for _, n := range t.properties {
		if t.late(wideSteps) || isProperty(n, last) && m.holds(n, t.Root) && !yield(microValue(n)) {
			break
		}
	}
	return "no such property in the microdata of the page"
}

// holds reports whether the path leads to n. The caller has checked that n is a property
// with the last key of the path as its name.
func (m *microPath) holds(n, root *html.Node) bool {
	for i := len(m.keys) - 2; ; i-- {
		for n = n.Parent; n != nil; n = n.Parent {
			if _, item := attribute(n, "itemscope"); item {
				break
			}
			if n == root {
				return false
			}
		}
		if n == nil {
			return false
		}
		if i >= 0 {
			if !isProperty(n, m.keys[i]) {
				return false
			}
			continue
		}
		if m.kind == "" {
			_, property := attribute(n, "itemprop")
			return !property
		}
		return anyWord(n, "itemtype", func(word string) bool { return isKind(word, m.kind) })
	}
}

// isProperty reports whether an element is a property with this name.
func isProperty(n *html.Node, name string) bool {
	return anyWord(n, "itemprop", func(word string) bool { return word == name })
}

// anyWord reports whether wanted returns true for any word of an attribute.
func anyWord(n *html.Node, attr string, wanted func(word string) bool) bool {
	words, _ := attribute(n, attr)
	for word := range strings.FieldsSeq(words) {
		if wanted(word) {
			return true
		}
	}
	return false
}

// microValue returns the value of a property as the HTML standard defines it, except that
// the content attribute counts on every element.
func microValue(n *html.Node) string {
	names := []string{"content"}
	switch n.DataAtom {
	case atom.A, atom.Area, atom.Link:
		names = append(names, "href")
	case atom.Audio, atom.Embed, atom.Iframe, atom.Img, atom.Source, atom.Track, atom.Video:
		names = append(names, "src")
	case atom.Object:
		names = append(names, "data")
	case atom.Data, atom.Meter:
		names = append(names, "value")
	case atom.Time:
		names = append(names, "datetime")
	}
	for _, name := range names {
		if value, ok := attribute(n, name); ok {
			return value
		}
	}
	return textOf(n)
}
