// Package npm installs packages of Node.js for tests that let other programs read what the crawler writes, or receive what it
// sends.
package npm

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Install copies the folder from, which has a package.json and a package-lock.json, to a temporary directory, installs the
// packages there and returns the directory. Scripts of the packages are not run. If this fails, the test is skipped, or
// fails if CRAWLER_TEST_SERVERS is "require".
func Install(t *testing.T, from string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = dir
	switch out, err := cmd.CombinedOutput(); {
	case err == nil:
	case os.Getenv("CRAWLER_TEST_SERVERS") == "require":
		t.Fatalf("npm install in %s: %v\n%s", from, err, out)
	default:
		t.Skipf("npm install in %s: %v\n%s", from, err, out)
	}
	return dir
}
