package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// workerFile is the name of the file that identifies a directory of a worker.
const workerFile = "worker.json"

// workerCard is the content of workerFile. It has no address of the crawl, because an
// address can contain a secret.
type workerCard struct {
	Format int    `json:"format"`
	Crawl  string `json:"crawl"` // its name
	ID     string `json:"id"`    // the id that the crawl got when it was created
	// Journal identifies the directory, even if it is moved to another path or machine. It is
	// empty if the directory was written by an early version.
	Journal string `json:"journal,omitempty"`
}

// sameCrawl reports whether two cards are of the same crawl.
func (c workerCard) sameCrawl(other workerCard) bool {
	c.Journal, other.Journal = "", ""
	return c == other
}

const workerFormat = 1

// ReadWorkerCard returns the card of a worker's directory. It returns nil if dir is not
// a worker's directory.
func ReadWorkerCard(dir string) (*workerCard, error) {
	name := filepath.Join(dir, workerFile)
	c, err := ReadJSON[workerCard](name)
	if c != nil && c.Format != workerFormat {
		return nil, fmt.Errorf("%s has format %d, want %d", name, c.Format, workerFormat)
	}
	return c, err
}

// errOtherCrawl reports a directory that belongs to another crawl.
var errOtherCrawl = errors.New("belongs to another crawl")

// check returns an error if a directory belongs to another crawl. The result owned reports
// whether the directory belongs to this crawl. If owned is false and err is nil, no crawl
// uses the directory.
func (c workerCard) check(dir string) (owned bool, err error) {
	if _, err := os.Stat(filepath.Join(dir, CrawlFile)); err == nil {
		return false, fmt.Errorf("%s %w: it is the directory of a crawl without Redis", dir, errOtherCrawl)
	}
	have, err := ReadWorkerCard(dir)
	if err == nil && have != nil && !have.sameCrawl(c) {
		err = fmt.Errorf("%s %w: it has records of %s (%s), not of %s (%s)", dir, errOtherCrawl, have.Crawl, have.ID, c.Crawl, c.ID)
	}
	return have != nil, err
}

// assign assigns an unused directory to this crawl, and gives the directory an id. The caller must hold the lock of
// the directory's journal.
func (c workerCard) assign(dir string) error {
	if _, err := c.check(dir); err != nil {
		return err
	}
	have, err := ReadWorkerCard(dir)
	if err != nil || have != nil && have.Journal != "" {
		return err
	}
	c.Journal = rand.Text()
	return WriteJSON(filepath.Join(dir, workerFile), "  ", c)
}

// openJournal opens the journal of a worker in dir. If dir is empty, it chooses the
// first of NAME.crawl/HOST-1, NAME.crawl/HOST-2, … that does not belong to another crawl
// and that no process has locked. So a worker that restarts finds its own directory.
func (c workerCard) openJournal(dir string, config record.Config) (*record.Journal, string, error) {
	if dir != "" {
		journal, err := c.open(dir, config)
		if errors.Is(err, frontier.ErrLocked) {
			err = ErrInUse(dir, "worker")
		}
		return journal, dir, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, "", err
	}
	if err := durable.MkdirAll(vfs.Default, JournalsOf(c.Crawl)); err != nil { // with the same mode as the workers' directories
		return nil, "", err
	}
	for n := 1; ; n++ {
		dir := c.directory(host, n)
		journal, err := c.open(dir, config)
		if errors.Is(err, frontier.ErrLocked) || errors.Is(err, errOtherCrawl) {
			continue
		}
		return journal, dir, err
	}
}

// directory returns one of the directories from which openJournal chooses.
func (c workerCard) directory(host string, n int) string {
	return filepath.Join(JournalsOf(c.Crawl), fmt.Sprintf("%s-%d", plainName(host), n))
}

// own returns the directory that openJournal would choose now. It returns "" if it does not belong
// to the crawl yet.
func (c workerCard) own(dir string) (string, error) {
	if dir != "" {
		if owned, err := c.check(dir); err != nil || !owned {
			return "", err
		}
		return dir, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		dir := c.directory(host, n)
		owned, err := c.check(dir)
		if errors.Is(err, errOtherCrawl) {
			continue
		}
		if err != nil || !owned {
			return "", err
		}
		locked, err := journalLocked(dir)
		if err != nil || !locked {
			return dir, err
		}
	}
}

func (c workerCard) open(dir string, config record.Config) (*record.Journal, error) {
	config.Dir = dir
	if _, err := c.check(dir); err != nil { // do not touch files of another crawl
		return nil, err
	}
	journal, err := record.OpenJournal(config)
	if err != nil {
		return nil, err
	}
	if err := c.assign(dir); err != nil {
		return nil, errors.Join(err, journal.Close())
	}
	return journal, nil
}

// journalLock is the lock file of a journal (package record).
const journalLock = "pages.lock"

// journalLocked reports whether a process had the journal in dir open a moment ago.
func journalLocked(dir string) (bool, error) {
	lock, err := durable.Lock(vfs.Default, filepath.Join(dir, journalLock))
	if errors.Is(err, durable.ErrHeld) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lock.Close()
}

// JournalsOf returns the default directory that contains the directories of a crawl's
// workers.
func JournalsOf(crawl string) string { return crawl + ".crawl" }

// plainName replaces the characters of a host's name that are not safe in a file name.
func plainName(host string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, host)
}

// errNoJournal reports a directory that neither is nor contains a worker's directory.
var errNoJournal = errors.New("it is not a worker's directory")

// FindJournals returns the workers' directories among dirs and directly below
// them, each once.
func FindJournals(dirs []string) (found []string, err error) {
	for _, dir := range dirs {
		below, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		names := []string{dir}
		for _, entry := range below {
			names = append(names, filepath.Join(dir, entry.Name()))
		}
		before := len(found)
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(name, workerFile)); err == nil {
				found = append(found, filepath.Clean(name))
			}
		}
		if len(found) == before {
			return nil, fmt.Errorf("%s has no %s, and no directory in it has one: %w", dir, workerFile, errNoJournal)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// HoldsOneCrawl reports whether dir is or contains workers' directories, and all of them are of one
// crawl.
func HoldsOneCrawl(dir string) bool {
	dirs, err := FindJournals([]string{dir})
	return err == nil && oneCrawl(dirs) == nil
}

// oneCrawl returns an error if the workers' directories belong to several crawls.
func oneCrawl(dirs []string) error {
	var first *workerCard
	for _, dir := range dirs {
		card, err := ReadWorkerCard(dir)
		if err != nil {
			return err
		}
		if first == nil {
			first = card
		}
		if !card.sameCrawl(*first) {
			return &LocationError{Crawl: first.Crawl, Problem: fmt.Sprintf("%s is of the crawl %s (%s), but %s of %s (%s)", dirs[0], first.Crawl, first.ID, dir, card.Crawl, card.ID)}
		}
	}
	return nil
}

// Unfinished yields the items that a crawl has not finished.
func Unfinished(ctx context.Context, store frontier.Inspector) iter.Seq2[frontier.Item, error] {
	return func(yield func(frontier.Item, error) bool) {
		more := true
		for _, state := range []frontier.State{frontier.Leased, frontier.Queued} {
			err := store.List(ctx, state, "", func(item frontier.Item) bool {
				more = yield(item, nil)
				return more
			})
			if err != nil && more {
				more = yield(frontier.Item{}, err)
			}
			if !more {
				return
			}
		}
	}
}

// waiting yields the keys of the items that a crawl has not finished.
func waiting(ctx context.Context, store frontier.Inspector) iter.Seq2[record.Key, error] {
	return func(yield func(record.Key, error) bool) {
		for item, err := range Unfinished(ctx, store) {
			if !yield(record.Key{Item: item.Fingerprint, Round: item.Round}, err) {
				return
			}
		}
	}
}

// WorkersOf returns the workers' directories among dirs and directly below them.
// They must belong to one crawl.
func WorkersOf(dirs []string) ([]string, error) {
	found, err := FindJournals(dirs)
	if err != nil {
		return nil, &LocationError{Crawl: "workers' directories", Problem: "no records", Err: err}
	}
	return found, oneCrawl(found)
}
