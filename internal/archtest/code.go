package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

var (
	// vague are package names that do not say what the package contains. Such packages
	// collect code that does not belong together.
	vague = []string{"util", "utils", "common", "base", "helpers", "misc", "models", "types", "manager"}

	// pure are the packages that take everything as an argument. They use no file,
	// network, clock or goroutine.
	pure = []string{"sizing", "frontier/canon", "frontier/policy", "frontier/politeness", "frontier/revisit", "internal/robots", "internal/follow", "internal/extract", "fetcher/fields", "internal/maintext", "events/filter",
		"fetcher/internal/sitemap", "internal/trap"}

	impure = []string{"os", "os/exec", "syscall", "net", "net/http"}

	clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

	// libraries are the folders whose packages other programs import. Their callers pass
	// them the logger, and all values from the command line and the environment.
	libraries = []string{"sizing", "bloomstore", "frontier", "fetcher", "events", "crawl", "serve"}
)

// checkName refuses vague names of packages.
func checkName(src source) []string {
	name := strings.TrimSuffix(src.syntax.Name.Name, "_test")
	for _, name := range []string{name, path.Base(src.pkg)} {
		if slices.Contains(vague, name) {
			return []string{fault(src.path, "package name %q is too vague: name what the package owns", name)}
		}
	}
	return nil
}

// checkPure refuses I/O, clocks and goroutines in the code of pure packages.
func checkPure(src source) []string {
	if src.test || !slices.Contains(pure, src.pkg) {
		return nil
	}
	faults := slices.Concat(
		bannedImports(src, impure, src.pkg+" is pure"),
		bannedUses(src, "time", clock, src.pkg+" is pure, the time is an argument"),
	)
	ast.Inspect(src.syntax, func(node ast.Node) bool {
		if _, starts := node.(*ast.GoStmt); starts {
			faults = append(faults, fault(src.path, "line %d starts a goroutine: %s is pure", src.line(node), src.pkg))
		}
		return true
	})
	return faults
}

// checkLibrary refuses libraries that use state of the whole process: flags, the
// environment, the default logger, init functions. Suites (packages whose names end with
// test) are part of their caller's test binary, so they are allowed to read its flags.
// A program that gives package crawl no logger sees its warnings on stderr.
func checkLibrary(src source) []string {
	if src.test || !slices.Contains(libraries, src.top) || strings.HasSuffix(src.pkg, "test") {
		return nil
	}
	const fromCaller = "a library takes it from its caller"
	process := []string{"Getenv", "LookupEnv", "Environ", "Args", "Exit", "Stdout"}
	if src.path != "crawl/open.go" {
		process = append(process, "Stderr")
	}
	faults := slices.Concat(
		bannedImports(src, []string{"flag", "log"}, "only cmd does"),
		bannedUses(src, "os", process, fromCaller),
		bannedUses(src, "log/slog", []string{"Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log", "LogAttrs"}, fromCaller),
	)
	for _, decl := range src.syntax.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			faults = append(faults, fault(src.path, "has an init: importing a library does nothing"))
		}
	}
	return faults
}

// checkTemplates refuses templates in the program, which also the methods of cobra with these
// names execute. If a program executes one, the linker keeps all exported methods of all types.
func checkTemplates(src source) []string {
	if src.test {
		return nil
	}
	const why = "the program grows by a third"
	faults := bannedImports(src, []string{"text/template", "html/template"}, why)
	ast.Inspect(src.syntax, func(node ast.Node) bool {
		if on, ok := node.(*ast.SelectorExpr); ok && slices.Contains([]string{"SetUsageTemplate", "SetHelpTemplate", "SetVersionTemplate"}, on.Sel.Name) {
			faults = append(faults, fault(src.path, "line %d uses %s: %s", src.line(node), on.Sel.Name, why))
		}
		return true
	})
	return faults
}

// bannedImports returns a fault for each import of a banned package.
func bannedImports(src source, banned []string, why string) (faults []string) {
	for _, imp := range imports(src) {
		if slices.Contains(banned, imp.path) {
			faults = append(faults, fault(src.path, "imports %s: %s", imp.path, why))
		}
	}
	return faults
}

// bannedUses returns a fault for each name in members that src uses. The names belong to
// the package importPath.
func bannedUses(src source, importPath string, members []string, why string) (faults []string) {
	at := slices.IndexFunc(imports(src), func(imp imported) bool { return imp.path == importPath })
	if at < 0 {
		return nil
	}
	name := imports(src)[at].name
	ast.Inspect(src.syntax, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		on, ok := selector.X.(*ast.Ident)
		found := fault(src.path, "uses %s.%s: %s", path.Base(importPath), selector.Sel.Name, why)
		if ok && on.Name == name && slices.Contains(members, selector.Sel.Name) && !slices.Contains(faults, found) {
			faults = append(faults, found)
		}
		return true
	})
	return faults
}

// line returns the number of the line at which node begins.
func (src source) line(node ast.Node) int { return src.lines.Position(node.Pos()).Line }
