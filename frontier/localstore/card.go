package localstore

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// Format is the version of the directory's layout.
const Format = 3

// cardFile holds the settings that were fixed when the crawl was created. It is written
// once.
const cardFile = "crawl.json"

type card struct {
	Format   int               `json:"format"`
	Created  time.Time         `json:"created"`
	ID       hexKey            `json:"id"`
	Key      hexKey            `json:"key"` // of the fingerprints; secret
	Filter   filterCard        `json:"filter"`
	Window   windowCard        `json:"window,omitzero"` // of bulk keys
	Settings frontier.Settings `json:"settings"`
}

type windowCard struct {
	Span        time.Duration `json:"span"`
	Generations int           `json:"generations"`
}

type filterCard struct {
	Capacity uint64         `json:"capacity"`
	FPR      float64        `json:"fpr"`
	Growth   membits.Growth `json:"growth"`
	Shards   int            `json:"shards"`
}

type hexKey [16]byte

func (k hexKey) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

func (k *hexKey) UnmarshalText(text []byte) error {
	if n, err := hex.Decode(k[:], text); err != nil || n != len(k) || len(text) != 2*len(k) {
		return fmt.Errorf("%q is not 32 hex digits", text)
	}
	return nil
}

// accept compares the card with the caller's settings.
func (c *card) accept(dir string, cfg Config) error {
	if err := c.Settings.Compare(cfg.Settings); err != nil {
		return err
	}
	if given := filterCard(cfg.Filter); given != c.Filter {
		return mismatch("%s was created with filter %+v, not %+v", dir, c.Filter, given)
	}
	if given := (windowCard{cfg.Windows[frontier.Bulk], cfg.Generations}); given.Span != c.Window.Span ||
		given.Generations != 0 && given.Generations != c.Window.Generations {
		return mismatch("%s was created with the window %+v of bulk keys, not %+v", dir, c.Window, given)
	}
	return nil
}

// StoredSettings returns the settings of the crawl in dir, or nil if dir has no crawl.
func StoredSettings(filesystem vfs.FS, dir string) (frontier.Settings, error) {
	c, err := readCard(filesystem, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return c.Settings, err
}

// StoredID returns the id of the crawl in dir.
func StoredID(filesystem vfs.FS, dir string) ([16]byte, error) {
	c, err := readCard(filesystem, dir)
	return c.ID, err
}

// Locked reports whether a process had the store in dir open a moment ago. It takes the
// lock for an instant: a process that opens the store at that moment gets ErrLocked. A nil
// fsys means the operating system's.
func Locked(fsys vfs.FS, dir string) (bool, error) {
	if fsys == nil {
		fsys = vfs.Default
	}
	lock, err := durable.Lock(fsys, fsys.PathJoin(dir, lockFile))
	if errors.Is(err, durable.ErrHeld) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lock.Close()
}

// LockedByOther is like Locked for a caller that must not create anything in dir.
func LockedByOther(dir string) bool { return durable.LockedByOther(filepath.Join(dir, lockFile)) }

func readCard(filesystem vfs.FS, dir string) (c card, err error) {
	if filesystem == nil {
		filesystem = vfs.Default
	}
	name := filesystem.PathJoin(dir, cardFile)
	f, err := filesystem.Open(name)
	if err != nil {
		return c, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("localstore: %s is not the card of a crawl: %w", name, err)
	}
	if c.Format != Format {
		return c, mismatch("%s has format %d, this program reads format %d", name, c.Format, Format)
	}
	return c, nil
}

// createCard writes the card of a new crawl. A crash leaves the whole file or none.
func createCard(filesystem vfs.FS, dir string, cfg Config) (card, error) {
	c := card{
		Format: Format, Created: cfg.Now().UTC().Truncate(time.Second), Key: hexKey(bloomstore.NewKey()),
		Filter: filterCard(cfg.Filter), Window: windowCard{cfg.Windows[frontier.Bulk], cfg.Generations}, Settings: cfg.Settings,
	}
	_, _ = rand.Read(c.ID[:])
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return c, err
	}
	return c, durable.ReplacePrivate(filesystem, filesystem.PathJoin(dir, cardFile), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// mismatchError matches ErrParamsMismatch under errors.Is. Its value is the text of the
// error.
type mismatchError string

func mismatch(format string, args ...any) error {
	return mismatchError("localstore: " + fmt.Sprintf(format, args...))
}

func (e mismatchError) Error() string        { return string(e) }
func (e mismatchError) Is(target error) bool { return target == frontier.ErrParamsMismatch }
