package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"

	"github.com/bloomfrontier/crawler/fetcher/warc"
)

// openWorkerArchive opens the files of answers of a worker. No other worker has
// files of these names, so that a record tells whose file has its answer.
func openWorkerArchive(config warc.Config) (*warc.Writer, error) {
	prefix, err := archivePrefix(filepath.Join(config.Dir, warc.Folder))
	if err != nil {
		return nil, err
	}
	config.Prefix = prefix
	return warc.OpenWhole(config)
}

var archiveName = regexp.MustCompile(`^(.+)-[0-9]{14}-[0-9]+\.warc\.gz$`)

// archivePrefix returns what the names of files in a folder begin with, for who
// goes on with them; of none a name that was drawn.
func archivePrefix(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, entry := range entries {
		if parts := archiveName.FindStringSubmatch(entry.Name()); parts != nil {
			return parts[1], nil
		}
	}
	return fmt.Sprintf("crawl-%08x", rand.Uint32()), nil
}
