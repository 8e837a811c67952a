// Package archtest checks the source tree against the rules of its architecture: which
// folders exist, which packages a package may import, what a pure package must not do,
// what the header of a script must say, and whether the links of the documents have a
// target.
//
// It reads the files itself and runs no go command, so that Go's test cache knows the
// files that a result depends on. It knows the layout of this repository, but not what
// the code does. It does not check what the compiler, vet and staticcheck check.
package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

const module = "github.com/bloomfrontier/crawler"

// floor has a number for each top folder of code: its floor. Code imports only from its own
// folder and from folders with a lower number. See the function direction for all rules.
var floor = map[string]int{"sizing": 0, "bloomstore": 1, "frontier": 2, "fetcher": 3, "events": 4, "crawl": 5, "serve": 6, "cmd": 7, "bench": 8}

// internalFloor gives packages below internal a floor, that of the named top folder. Other
// programs cannot import these packages, but several of our folders do. A package below
// internal that is not in this map has no floor.
var internalFloor = map[string]string{
	"internal/bloomrate": "bloomstore",
	"internal/redisbits": "bloomstore",
	"internal/dedup":     "frontier",
	"internal/exact":     "frontier",
	"internal/pgstore":   "events",
	"internal/budget":    "fetcher",
	"internal/extract":   "fetcher",
	"internal/follow":    "frontier",
	"internal/robots":    "fetcher",
	"internal/maintext":  "fetcher",
	"internal/resolve":   "fetcher",
	"internal/trap":      "frontier",
	"internal/seed":      "crawl",
	"internal/bench":     "cmd",
	"internal/testkit":   "bench",
	"internal/testweb":   "cmd",
}

// floorless are the top folders that are on no floor.
var floorless = []string{"internal", "docs", "deploy", "findings", "tools", ".ci", ".git"}

// isOutput reports whether a folder holds the output of a run or of a build. Git ignores
// such folders.
func isOutput(name string) bool { return name == "bin" || strings.HasSuffix(name, ".crawl") }

// source is one parsed Go file.
type source struct {
	path   string // from the root, with slashes
	pkg    string // the folder, which is the import path below the module; empty for the root
	top    string // the top folder that gives pkg its floor: see topOf
	test   bool   // a _test.go file
	syntax *ast.File
	lines  *token.FileSet
}

// fault returns the text of a broken rule: "path: what is wrong".
func fault(path, format string, args ...any) string {
	return path + ": " + fmt.Sprintf(format, args...)
}

// Check returns the faults of the tree, in the order of their files. It returns an error
// if a file cannot be read or parsed.
func Check(tree fs.FS) ([]string, error) {
	var faults []string
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isSkipped(name):
			return fs.SkipDir
		case entry.IsDir() && isUnknownTop(name):
			faults = append(faults, fault(name, "unknown top folder: give it a floor, or move it into a folder with a floor"))
			return nil
		case !entry.Type().IsRegular():
			return nil
		}
		found, err := checkFile(tree, name)
		faults = append(faults, found...)
		return err
	})
	return faults, err
}

// isUnknownTop reports whether a folder is a top folder that is neither in floor nor in
// floorless.
func isUnknownTop(name string) bool {
	_, known := floor[name]
	return name != "." && !strings.Contains(name, "/") && !known && !slices.Contains(floorless, name)
}

// topOf returns the top folder that gives a package its floor. For a package in internalFloor,
// this is the folder that internalFloor names. For every other package, it is the first element
// of the package's path.
func topOf(pkg string) string {
	top, rest, _ := strings.Cut(pkg, "/")
	if top != "internal" {
		return top
	}
	room, _, _ := strings.Cut(rest, "/")
	return cmp.Or(internalFloor[top+"/"+room], top)
}

// isSkipped reports whether a folder contains no source, so that Check does not read it.
func isSkipped(name string) bool {
	base := path.Base(name)
	return isOutput(base) || base == ".git" || base == "testdata"
}

// checkFile checks one file against the rules for its kind.
func checkFile(tree fs.FS, name string) ([]string, error) {
	ext := path.Ext(name)
	if ext == ".go" {
		src, err := parse(tree, name)
		if err != nil {
			return nil, err
		}
		return checkGo(tree, src), nil
	}
	known := slices.Contains([]string{".md", ".lua", ".sql", ".sh"}, ext) || name == "Makefile" || name == ".ci/run"
	if !known {
		return nil, nil
	}
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	switch ext {
	case ".md":
		return checkPage(tree, name, string(text)), nil
	case ".lua", ".sql":
		return append(checkHeader(name, string(text)), checkLines(tree, name, 1, string(text))...), nil
	}
	return checkLines(tree, name, 1, string(text)), nil
}

func parse(tree fs.FS, name string) (source, error) {
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return source{}, err
	}
	lines := token.NewFileSet()
	syntax, err := parser.ParseFile(lines, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	pkg := strings.TrimPrefix(path.Dir(name), ".")
	return source{name, pkg, topOf(pkg), strings.HasSuffix(name, "_test.go"), syntax, lines}, nil
}

func checkGo(tree fs.FS, src source) []string {
	return slices.Concat(
		checkName(src),
		checkDirection(src),
		checkPublic(src),
		checkRooms(src),
		checkPure(src),
		checkLibrary(src),
		checkTemplates(src),
		checkComments(tree, src),
		checkWords(src),
	)
}
