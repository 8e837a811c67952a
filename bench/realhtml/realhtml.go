// Package realhtml finds web pages that people wrote: the HTML documentation that
// Debian packages install. It is for tests and measurements for which generated pages
// would be too easy.
//
// It finds the pages and makes one site of them. `make deps` installs the pages, and
// package site serves them.
package realhtml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Tree is a folder with the HTML documentation of a Debian package.
type Tree struct {
	Name string // a short name, such as "git", for the folders that LayOut makes
	Dir  string // the folder in which the package installs it
	Deb  string // the name of the package
}

// Trees returns the trees that this package knows. All links inside a tree are
// relative, so that a copy of a tree links only to itself. The first page of each tree
// is index.html.
func Trees() []Tree {
	return []Tree{
		{"git", "/usr/share/doc/git-doc", "git-doc"},        // 242 pages, 38 KB on average
		{"sqlite", "/usr/share/doc/sqlite3", "sqlite3-doc"}, // 766 pages, 28 KB on average
	}
}

// ErrMissing reports documentation that is not installed.
var ErrMissing = errors.New("realhtml: documentation is not installed")

// Installed returns all Trees. If some are not installed, it returns an error that
// wraps ErrMissing and names every missing package.
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

// LayOut makes dir the root of one site. The site contains the given number of copies
// of each tree, and an index.html that links to each copy. A crawl of a single copy
// would be too short to measure. Copies are symbolic links, so that they take no disk
// space, and no memory in package site. dir must be empty or must not exist.
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
