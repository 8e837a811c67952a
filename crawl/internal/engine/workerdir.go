package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// workerFile says whose directory this is: a worker's of a crawl that is shared.
const workerFile = "worker.json"

// workerCard is what workerFile has. It says nothing of how to reach the crawl,
// which may need a secret.
type workerCard struct {
	Format int    `json:"format"`
	Crawl  string `json:"crawl"` // its name
	ID     string `json:"id"`    // what the crawl of that name got when it was created
}

const workerFormat = 1

// ReadWorkerCard returns the card of a worker's directory; nil: it is none.
func ReadWorkerCard(dir string) (*workerCard, error) {
	name := filepath.Join(dir, workerFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	c := new(workerCard)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if c.Format != workerFormat {
		return nil, fmt.Errorf("%s has format %d, want %d", name, c.Format, workerFormat)
	}
	return c, nil
}

// errOtherCrawl reports a directory that is not this crawl's.
var errOtherCrawl = errors.New("is not of this crawl")

// check refuses a directory that is another crawl's. mine: it is this one's;
// else it is nobody's yet.
func (c workerCard) check(dir string) (mine bool, err error) {
	if _, err := os.Stat(filepath.Join(dir, CrawlFile)); err == nil {
		return false, fmt.Errorf("%s %w: it has a crawl of its own", dir, errOtherCrawl)
	}
	have, err := ReadWorkerCard(dir)
	if err == nil && have != nil && *have != c {
		err = fmt.Errorf("%s %w: it has records of %s (%s), not of %s (%s)", dir, errOtherCrawl, have.Crawl, have.ID, c.Crawl, c.ID)
	}
	return have != nil, err
}

// claim makes a directory this crawl's, unless it is another's. The caller has
// the lock of its journal.
func (c workerCard) claim(dir string) error {
	if mine, err := c.check(dir); err != nil || mine {
		return err
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return ReplaceFile(filepath.Join(dir, workerFile), append(text, '\n'))
}

// openJournal opens the journal of a worker in dir. Without a dir it takes the
// first of NAME.crawl/HOST-1, HOST-2, … that is this crawl's and that nobody
// works in: a worker that comes again finds its own.
func (c workerCard) openJournal(dir string, config record.Config) (*record.Journal, string, error) {
	if dir != "" {
		journal, err := c.open(dir, config)
		if errors.Is(err, frontier.ErrLocked) {
			err = errInUse(dir, "worker")
		}
		return journal, dir, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, "", err
	}
	for n := 1; ; n++ {
		dir := filepath.Join(JournalsOf(c.Crawl), fmt.Sprintf("%s-%d", plainName(host), n))
		journal, err := c.open(dir, config)
		if errors.Is(err, frontier.ErrLocked) || errors.Is(err, errOtherCrawl) {
			continue
		}
		return journal, dir, err
	}
}

func (c workerCard) open(dir string, config record.Config) (*record.Journal, error) {
	config.Dir = dir
	if _, err := c.check(dir); err != nil { // before a file of another crawl is touched
		return nil, err
	}
	journal, err := record.OpenJournal(config)
	if err != nil {
		return nil, err
	}
	if err := c.claim(dir); err != nil {
		return nil, errors.Join(err, journal.Close())
	}
	return journal, nil
}

// journalLock is the file by which package record keeps a journal to one process.
const journalLock = "pages.lock"

// journalLocked reports whether a worker has the journal in dir open, as of a
// moment ago.
func journalLocked(dir string) bool {
	lock, err := vfs.Default.Lock(filepath.Join(dir, journalLock))
	if err != nil {
		return true
	}
	return lock.Close() != nil
}

// JournalsOf returns the directory that has those of a crawl's workers, unless
// they are told otherwise.
func JournalsOf(crawl string) string { return crawl + ".crawl" }

// plainName is a host's name as part of a file's.
func plainName(host string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, host)
}

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
			return nil, fmt.Errorf("%s has no %s, nor has a directory in it: it is no worker's", dir, workerFile)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// oneCrawl refuses directories of workers of several crawls.
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
		if *card != *first {
			return &LocationError{Crawl: first.Crawl, Problem: fmt.Sprintf("%s is of the crawl %s (%s), but %s of %s (%s)", dirs[0], first.Crawl, first.ID, dir, card.Crawl, card.ID)}
		}
	}
	return nil
}

// waiting are the items that a crawl has not finished.
func waiting(ctx context.Context, store frontier.Inspector) iter.Seq2[record.Key, error] {
	return func(yield func(record.Key, error) bool) {
		more := true
		for _, state := range []frontier.State{frontier.Leased, frontier.Queued} {
			err := store.List(ctx, state, "", func(item frontier.Item) bool {
				more = yield(record.Key{Item: item.Fingerprint, Round: item.Round}, nil)
				return more
			})
			if err != nil && more {
				more = yield(record.Key{}, err)
			}
			if !more {
				return
			}
		}
	}
}

// WorkersOf returns the workers' directories among dirs and directly below them,
// which have to be of one crawl.
func WorkersOf(dirs []string) ([]string, error) {
	found, err := FindJournals(dirs)
	if err != nil {
		return nil, &LocationError{Crawl: "workers' directories", Problem: "no records", Err: err}
	}
	return found, oneCrawl(found)
}
