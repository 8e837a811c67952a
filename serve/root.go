package serve

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/internal/durable"
	"github.com/bloomfrontier/crawler/serve/idempotency"
)

// root is the directory of a Server:
//
//	lock          held by the process that uses the directory
//	ledger/       what is stored outside of the crawls
//	temp/         copies of records that are being read
//	NAME.crawl/   the crawls
//
// With Redis, the ledger and the crawls are there, and the directory has instead of them
//
//	holder        the identity of the Server, for its lease
type root struct{ dir string }

func (r root) crawl(name string) string { return filepath.Join(r.dir, name+".crawl") }
func (r root) temp() string             { return filepath.Join(r.dir, "temp") }

// open removes the temporary files of an earlier process.
func (r root) open() error {
	if err := os.RemoveAll(r.temp()); err != nil {
		return err
	}
	return durable.MkdirAll(vfs.Default, r.temp())
}

// holder returns the identity of the Server of this directory. The first call chooses it.
func (r root) holder() (string, error) {
	file := filepath.Join(r.dir, "holder")
	if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
		return string(text), nil
	}
	holder := newHolder()
	return holder, durable.ReplacePrivate(vfs.Default, file, func(w io.Writer) error {
		_, err := io.WriteString(w, holder)
		return err
	})
}

// card is what is kept about a crawl outside of it.
type card struct {
	Name     string    `json:"name"`
	Created  time.Time `json:"created"`
	By       string    `json:"by"`       // the caller that created the crawl
	Settings []string  `json:"settings"` // NAME=VALUE, of the creation
	Run      bool      `json:"run"`      // the crawl should run
	// State is creating or deleting until that is finished, and otherwise empty.
	State    string          `json:"state,omitempty"`
	Adopted  bool            `json:"adopted,omitempty"` // the crawl existed before the creation
	Webhooks []storedWebhook `json:"webhooks,omitempty"`
	// Creation and Deletion are the IDs of the requests that created and deleted the crawl.
	Creation string `json:"creation"`
	Deletion string `json:"deletion,omitempty"`
}

// States of a card.
const (
	creating = "creating"
	deleting = "deleting"
)

// done is the effect of a creation or a deletion, after the card is gone. It is the note of the request.
type done struct {
	Created *Created `json:"created,omitempty"` // nil for a deletion
}

// getNote reads a note into value. It returns false if there is none.
func getNote(ctx context.Context, l ledger, key string, value any) (found bool, err error) {
	text, err := l.note(ctx, key)
	if err != nil || text == nil {
		return false, err
	}
	if err := json.Unmarshal(text, value); err != nil {
		return false, fmt.Errorf("serve: note %s: %w", key, err)
	}
	return true, nil
}

// putNote stores a value as a note.
func putNote(ctx context.Context, l ledger, key string, value any, ttl time.Duration) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return l.putNote(ctx, key, text, ttl)
}

// idText returns an ID as text.
func idText(id idempotency.ID) string { return hex.EncodeToString(id[:]) }

// doneKey is the key of the note that the request with an ID is done.
func doneKey(id string) string { return "done/" + id }
