package archtest

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	// invented are words of our own that a reader would have to learn. Each has a usual
	// synonym, such as directory or heartbeat.
	invented = []string{"tier", "shelf", "shelved", "courier", "lobby", "untold"}

	// phrases are expressions that a reader has to read twice.
	phrases = regexp.MustCompile(`(?i)\b(nobody|somebody|whoever|what is so|is to be|` +
		`could not be had|comes? to an end|keeps? its books)\b`)
)

// checkWords refuses declared names that contain an invented word, and phrases in comments.
func checkWords(src source) []string {
	var faults []string
	ast.Inspect(src.syntax, func(node ast.Node) bool {
		for _, name := range declared(node) {
			for _, word := range wordsOf(name.Name) {
				if slices.Contains(invented, word) {
					faults = append(faults, fault(src.path, "line %d: the name %s has the invented word %q: use a word of docs/glossary.md",
						src.line(name), name.Name, word))
				}
			}
		}
		return true
	})
	for _, group := range src.syntax.Comments {
		text := strings.Join(strings.Fields(group.Text()), " ")
		if phrase := phrases.FindString(text); phrase != "" {
			faults = append(faults, fault(src.path, "comment at line %d has %q: name who or what does it", src.line(group), phrase))
		}
	}
	return faults
}

// declared returns the names that a node declares.
func declared(node ast.Node) []*ast.Ident {
	switch n := node.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		var names []*ast.Ident
		for _, left := range n.Lhs {
			if name, ok := left.(*ast.Ident); ok {
				names = append(names, name)
			}
		}
		return names
	}
	return nil
}

// wordsOf returns the words of a name such as newExactStore, in lower case and without
// the s of a plural.
func wordsOf(name string) []string {
	var words []string
	start := 0
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			words, start = append(words, name[start:i]), i
		}
	}
	words = append(words, name[start:])
	for i := range words {
		words[i] = strings.TrimSuffix(strings.ToLower(words[i]), "s")
	}
	return words
}
