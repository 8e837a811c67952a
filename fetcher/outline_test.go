package fetcher

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// outlined is a gate as the outline in the package comment, or docs/design/worker.md, names it.
type outlined struct{ number, function, file string }

func parseSource(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// declaredIn returns the names of the functions and of the methods of interfaces in a file.
func declaredIn(file *ast.File) (names []string) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			names = append(names, n.Name.Name)
		case *ast.InterfaceType:
			for _, method := range n.Methods.List {
				for _, name := range method.Names {
					names = append(names, name.Name)
				}
			}
		}
		return true
	})
	return names
}

func gatesIn(pattern, text string) (gates []outlined) {
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		gates = append(gates, outlined{found[1], found[2], found[3]})
	}
	return gates
}

// TestOutlineOfGates: the package comment and docs/design/worker.md name the same gates, numbered
// from 1, and each function is in the file that they name.
func TestOutlineOfGates(t *testing.T) {
	comment := parseSource(t, "fetcher/fetcher.go").Doc.Text()
	page, err := os.ReadFile("../docs/design/worker.md")
	if err != nil {
		t.Fatal(err)
	}
	gates := gatesIn(`(?m)^[ \t]*(\d+) +(\w+) +(\S+\.go) +\S`, comment)
	if onPage := gatesIn("(?m)^\\| (\\d+) \\| `(\\w+)` \\| .* \\| `(\\S+)` \\|$", string(page)); !slices.Equal(gates, onPage) {
		t.Errorf("the package comment has the gates\n%v\ndocs/design/worker.md has\n%v", gates, onPage)
	}
	for i, gate := range gates {
		if gate.number != strconv.Itoa(i+1) {
			t.Errorf("gate %d has the number %s", i+1, gate.number)
		}
		if !slices.Contains(declaredIn(parseSource(t, gate.file)), gate.function) {
			t.Errorf("gate %s: %s declares no %s", gate.number, gate.file, gate.function)
		}
	}
	count := strconv.Itoa(len(gates))
	architecture, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []struct{ text, want string }{
		{comment, "passes " + count + " gates"},
		{string(page), "There are " + count + "."},
		{strings.Join(strings.Fields(string(architecture)), " "), "passes [" + count + " gates]"},
	} {
		if len(gates) == 0 || !strings.Contains(said.text, said.want) {
			t.Errorf("a text lacks %q", said.want)
		}
	}
}

// TestOrderOfGates: the functions that call the gates call them in the order of the outline.
func TestOrderOfGates(t *testing.T) {
	for _, call := range []struct {
		file, caller string
		want         []string
	}{
		{"fetcher/fetcher.go", "acquire", []string{"sleep", "Lease", "start"}},
		{"fetcher/hold.go", "step", []string{"dead", "access", "turn", "startVisit"}},
		{"fetcher/hold.go", "startVisit", []string{"takeListing", "takePage", "begin", "visit"}},
		{"fetcher/turn.go", "takeTurn", []string{"takeSlot", "await", "next", "pay"}},
		{"fetcher/turn.go", "pay", []string{"Reserve", "awaitBandwidth"}},
		{"fetcher/get/request.go", "Get", []string{"build", "Started", "exchange"}},
		{"fetcher/get/dial.go", "dial", []string{"permitted", "toAny"}},
	} {
		t.Run(call.caller, func(t *testing.T) {
			var calls []string
			for _, decl := range parseSource(t, call.file).Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == call.caller {
					calls = callsIn(f, call.want)
				}
			}
			if !slices.Equal(calls, call.want) {
				t.Errorf("%s calls first %q, want %q", call.caller, calls, call.want)
			}
		})
	}
}

// callsIn returns those of the names that f calls, in the order of their first calls.
func callsIn(f *ast.FuncDecl, names []string) (calls []string) {
	ast.Inspect(f, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := ""
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			name = fun.Name
		case *ast.SelectorExpr:
			name = fun.Sel.Name
		}
		if slices.Contains(names, name) && !slices.Contains(calls, name) {
			calls = append(calls, name)
		}
		return true
	})
	return calls
}
