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

// openWorkerArchive opens the files of answers of a worker. Their names are unique
// among all workers, because a record names the file that contains its answer.
func openWorkerArchive(config warc.Config) (*warc.Writer, error) {
	prefix, err := archivePrefix(filepath.Join(config.Dir, warc.Folder))
	if err != nil {
		return nil, err
	}
	config.Prefix = prefix
	return warc.OpenWhole(config)
}

var archiveName = regexp.MustCompile(`^(.+)-[0-9]{14}-[0-9]+\.warc\.gz$`)

// archivePrefix returns the prefix of the names of the files in a folder, or a new
// random one if the folder has none.
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
