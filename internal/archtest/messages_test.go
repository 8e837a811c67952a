package archtest

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/messages.txt")

// TestMessagesAreListed compares the texts of all errors and log lines with
// testdata/messages.txt, which a reviewer can read as a whole.
func TestMessagesAreListed(t *testing.T) {
	texts, err := messages(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&got, "%s\n", pkg)
		for _, text := range slices.Compact(slices.Sorted(slices.Values(texts[pkg]))) {
			fmt.Fprintf(&got, "\t%s\n", text)
		}
	}
	const name = "testdata/messages.txt"
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("messages changed: read them, then run go test ./internal/archtest -update\n%s", difference(string(want), got.String()))
	}
}

// messages returns the texts of errors and log lines, by package. It leaves out tests, bench
// and what only they use.
func messages(tree fs.FS) (map[string][]string, error) {
	texts := make(map[string][]string)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (isSkipped(name) || slices.Contains(judges, name) || name == "bench" || name == "internal/bench"):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := parse(tree, name)
		if err != nil {
			return err
		}
		ast.Inspect(src.syntax, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok {
				if text := message(call); text != "" {
					texts[src.pkg] = append(texts[src.pkg], text)
				}
			}
			return true
		})
		return nil
	})
	return texts, err
}

// messageCalls maps each function or method that takes a message to the index of the
// message among its arguments.
var messageCalls = map[string]int{
	"errors.New": 0, "fmt.Errorf": 0,
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0,
	"DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1,
	"Log": 2, "LogAttrs": 2,
}

// message returns the message of a call in quotes, or "" if the call has none.
func message(call *ast.CallExpr) string {
	on, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	name := on.Sel.Name
	if pkg, ok := on.X.(*ast.Ident); ok && (pkg.Name == "errors" || pkg.Name == "fmt") {
		name = pkg.Name + "." + name
	}
	at, ok := messageCalls[name]
	if !ok || len(call.Args) <= at {
		return ""
	}
	text, ok := literal(call.Args[at])
	if !ok {
		return ""
	}
	return strconv.Quote(text)
}

// literal returns the text of a string expression, with … for its parts that are not
// literal. It returns false if there is no literal part.
func literal(expr ast.Expr) (string, bool) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, inLeft := literal(e.X)
		right, inRight := literal(e.Y)
		return left + right, inLeft || inRight
	}
	return "…", false
}

// difference returns the lines that are in only one of two texts.
func difference(before, after string) string {
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	var b strings.Builder
	for _, line := range old {
		if !slices.Contains(now, line) {
			fmt.Fprintln(&b, "-", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			fmt.Fprintln(&b, "+", line)
		}
	}
	return b.String()
}
