package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestCompilesOnMacOS checks that all packages and their tests have correct types on macOS. Compiling
// them for it would take minutes.
func TestCompilesOnMacOS(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes,
		Dir:  root, Tests: true, Env: append(os.Environ(), "GOOS=darwin", "CGO_ENABLED=0"),
		ParseFile: func(files *token.FileSet, name string, text []byte) (*ast.File, error) {
			file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
			if file == nil || strings.HasPrefix(name, root) || file.Name.Name == "main" {
				return file, err
			}
			for _, declared := range file.Decls { // the types of other modules do not depend on bodies
				if function, is := declared.(*ast.FuncDecl); is {
					function.Body = nil
				}
			}
			return file, err
		},
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range loaded {
		for _, fault := range pkg.Errors {
			t.Error(fault)
		}
	}
}
