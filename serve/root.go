package serve

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/internal/durable"
	"github.com/bloomfrontier/crawler/internal/name"
	"github.com/bloomfrontier/crawler/serve/idempotency"
)

// root is the directory of a Server:
//
//	lock          held by the process that uses the directory
//	answers/      the stored answers, and the progress of uploads
//	cards/NAME    the card of each crawl
//	done/ID       the answers of creations and deletions whose card is gone
//	retries/ID    retries of failed URLs
//	temp/         copies of records that are being read
//	NAME.crawl/   the crawls
type root struct{ dir string }

func (r root) crawl(name string) string { return filepath.Join(r.dir, name+".crawl") }
func (r root) temp() string             { return filepath.Join(r.dir, "temp") }

// without returns a text for callers, without the path of the directory.
func (r root) without(text string) string { return strings.ReplaceAll(text, r.dir+"/", "") }

// open creates the directories, and removes the temporary files of an earlier process.
func (r root) open() error {
	if err := os.RemoveAll(r.temp()); err != nil {
		return err
	}
	for _, sub := range []string{"cards", "done", "retries", "temp"} {
		if err := durable.MkdirAll(vfs.Default, filepath.Join(r.dir, sub)); err != nil {
			return err
		}
	}
	return nil
}

// put replaces a file by the JSON of a value, durably.
func (r root) put(sub, file string, value any) error {
	return durable.ReplacePrivate(vfs.Default, filepath.Join(r.dir, sub, file), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(value)
	})
}

// get reads a file into value. It returns false if there is none.
func (r root) get(sub, file string, value any) (found bool, err error) {
	text, err := os.ReadFile(filepath.Join(r.dir, sub, file))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, value)
	}
	if err != nil {
		return false, fmt.Errorf("serve: %s: %w", filepath.Join(r.dir, sub, file), err)
	}
	return true, nil
}

// remove removes a file durably.
func (r root) remove(sub, file string) error {
	if err := os.Remove(filepath.Join(r.dir, sub, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(vfs.Default, filepath.Join(r.dir, sub))
}

// list returns the names of the files in a directory.
func (r root) list(sub string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(r.dir, sub))
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), durable.NewSuffix) {
			_ = os.Remove(filepath.Join(r.dir, sub, entry.Name())) // left by a crash
		} else if name.OfCrawl(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// sweep removes the files of done and retries that are older than the answers of their keys.
func (r root) sweep(now time.Time) error {
	var errs []error
	for _, sub := range []string{"done", "retries"} {
		entries, err := os.ReadDir(filepath.Join(r.dir, sub))
		errs = append(errs, err)
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil && now.Sub(info.ModTime()) > 2*keyTTL {
				errs = append(errs, os.Remove(filepath.Join(r.dir, sub, entry.Name())))
			}
		}
	}
	return errors.Join(errs...)
}

// card is what is kept about a crawl outside of it.
type card struct {
	Name     string    `json:"name"`
	Created  time.Time `json:"created"`
	By       string    `json:"by"`       // the caller that created the crawl
	Settings []string  `json:"settings"` // NAME=VALUE, of the creation
	Run      bool      `json:"run"`      // the crawl should run
	// State is creating or deleting until that is finished, and otherwise empty.
	State string `json:"state,omitempty"`
	// Creation and Deletion are the IDs of the requests that created and deleted the crawl.
	Creation string `json:"creation"`
	Deletion string `json:"deletion,omitempty"`
}

// States of a card.
const (
	creating = "creating"
	deleting = "deleting"
)

// done is the effect of a creation or a deletion, after the card is gone.
type done struct {
	Created *Created `json:"created,omitempty"` // nil for a deletion
}

// idText returns an ID as the name of a file.
func idText(id idempotency.ID) string { return hex.EncodeToString(id[:]) }
