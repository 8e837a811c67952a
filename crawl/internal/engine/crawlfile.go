package engine

import (
	"errors"
	"os"
)

// CrawlFile is the name of the file that marks the directory of an embedded crawl.
const CrawlFile = "crawl.json"

// ReplaceFile replaces a file atomically. It must not be called concurrently for
// one name. If a process was killed during a call, the next call overwrites the
// temporary file that it left.
func ReplaceFile(name string, text []byte) error {
	f, err := os.Create(name + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), name)
}
