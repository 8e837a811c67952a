package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/internal/durable"
)

// CrawlFile is the name of the file that marks the directory of an embedded crawl.
const CrawlFile = "crawl.json"

// ReadJSON returns the value in a file of JSON. It returns nil if there is no file.
func ReadJSON[T any](name string) (*T, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	value := new(T)
	if err := json.Unmarshal(text, value); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return value, nil
}

// ReplaceFile replaces a file atomically. It must not be called concurrently for one name.
func ReplaceFile(name string, write func(io.Writer) error) error {
	return durable.Replace(vfs.Default, name, write)
}

// WriteJSON replaces a file of JSON, as ReplaceFile does.
func WriteJSON(name, indent string, value any) error {
	return ReplaceFile(name, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", indent)
		return e.Encode(value)
	})
}
