// Package realhtml finds web pages that people wrote, for tests and
// measurements that made-up pages would flatter: the HTML documentation that
// Debian packages install.
//
// It finds them and lays them out as one site. It does not install them
// (make deps does) and does not serve them (package site).
package realhtml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Tree is an installed documentation.
type Tree struct {
	Name string // "git": how LayOut calls its folder
	Dir  string // where the package puts it
	Deb  string // the package
}

// Trees are the documentations that this package knows. Both are sites of
// relative links only, so that a copy is a site of its own, and begin with
// index.html.
func Trees() []Tree {
	return []Tree{
		{"git", "/usr/share/doc/git-doc", "git-doc"},        // 242 pages, 38 KB on average
		{"sqlite", "/usr/share/doc/sqlite3", "sqlite3-doc"}, // 766 pages, 28 KB on average
	}
}

// ErrMissing reports documentation that is not installed.
var ErrMissing = errors.New("realhtml: documentation is not installed")

// Installed returns the Trees. An error that wraps ErrMissing names every
// package that has to be installed first.
func Installed() ([]Tree, error) {
	return installed(Trees())
}

func installed(trees []Tree) ([]Tree, error) {
	var missing []string
	for _, tree := range trees {
		if _, err := os.Stat(filepath.Join(tree.Dir, "index.html")); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, tree.Deb)
		} else if err != nil {
			return nil, err
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("%w: apt-get install %s", ErrMissing, strings.Join(missing, " "))
	}
	return trees, nil
}

// LayOut makes dir the root of one site that holds every tree of trees copies
// times and an index.html that links to each: one documentation alone is
// fetched too fast to be measured. The copies are symbolic links, so that they
// cost no disk, nor memory in package site. dir must not exist or be empty.
func LayOut(dir string, trees []Tree, copies int) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if found, err := os.ReadDir(dir); err != nil {
		return err
	} else if len(found) > 0 {
		return fmt.Errorf("lay out real HTML: %q is not empty", dir)
	}
	var index strings.Builder
	index.WriteString("<!DOCTYPE html>\n<html><head><title>Documentation</title></head><body>\n")
	for i := range copies {
		for _, tree := range trees {
			name := fmt.Sprintf("%s-%03d", tree.Name, i)
			source, err := filepath.Abs(tree.Dir)
			if err != nil {
				return err
			}
			if err := os.Symlink(source, filepath.Join(dir, name)); err != nil {
				return err
			}
			fmt.Fprintf(&index, "<p><a href=\"%s/index.html\">%s</a>\n", name, name)
		}
	}
	index.WriteString("</body></html>\n")
	return os.WriteFile(filepath.Join(dir, "index.html"), []byte(index.String()), 0o666)
}
