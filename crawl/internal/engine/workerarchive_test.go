package engine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestArchivePrefix(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "warc")
	first, err := archivePrefix(folder)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := archivePrefix(folder); err != nil || other == first {
		t.Errorf("two workers got the prefixes %q and %q (%v), want different ones", first, other, err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"crawl", first} {
		file := filepath.Join(folder, prefix+"-20261120204418-00002.warc.gz")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := archivePrefix(folder); err != nil || got != prefix {
			t.Errorf("archivePrefix of a folder with %s = %q, %v; want %q", filepath.Base(file), got, err, prefix)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}
