package dedup

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// A store is a directory that keeps the set of seen keys between runs:
//
//	dedup.json          settings that were fixed when it was created
//	LOCK                held by the process that uses it
//	journal-C           fingerprints since filter-C, or since the beginning for C = 0
//	filter-C.bits       the filter as it was when journal-C began
//
// The newest filter is used, with the journal of the same number. A new journal is
// created before the new filter gets its name, so there is always one complete pair. An
// exact store has no filter, only a journal.
//
// With a window, each generation has its journals and filters in a folder of its own:
//
//	generations.json    the numbers of the generations
//	generation-N        the folder of generation N
//
// A folder with a journal is created before its number is written to generations.json. Folders of
// other numbers are removed: they belong to generations that had not begun, or that have ended.
type store struct {
	cfg    Config
	card   card
	unlock io.Closer
	seen   seen
	part   *part // the part to which fingerprints are added
}

// part is a set of fingerprints in a folder of journals and filters: the whole store or, with a
// window, one generation.
type part struct {
	dir        string
	store      *store
	seen       seen
	journal    *journal
	checkpoint uint64 // C in the names of its files
}

// format is the version of the directory's layout.
const format = 2

const (
	cardFile      = "dedup.json"
	lockFile      = "LOCK"
	journalPrefix = "journal-"
	filterPrefix  = "filter-"
	filterSuffix  = ".bits"

	generationsFile  = "generations.json"
	generationPrefix = "generation-"
)

// card is the content of dedup.json.
type card struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
	ID      hexBytes  `json:"id"`
	Key     hexBytes  `json:"key"` // key of the fingerprints
	Settings
	Canon canon.Options `json:"canon"` // the options that produce Form
}

type hexBytes [16]byte

func (h hexBytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

func (h *hexBytes) UnmarshalText(text []byte) error {
	if n, err := hex.Decode(h[:], text); err != nil || n != len(h) {
		return fmt.Errorf("%q is not 32 hex digits", text)
	}
	return nil
}

// config returns the config of the filter, or of a generation of a window.
func (s Settings) config() membits.Config {
	if s.Window > 0 {
		return s.windowConfig().Generation()
	}
	return membits.Config{Capacity: s.URLs, FPR: s.FPR}
}

// newSeen returns an empty set.
func (s Settings) newSeen(now time.Time) (seen, error) {
	if s.Window == 0 {
		return s.newPart()
	}
	first, err := s.newPart()
	if err != nil {
		return nil, err
	}
	return newWindow(s, []generation{{s.number(now), first}})
}

// newPart returns an empty set without a window, or an empty generation.
func (s Settings) newPart() (seen, error) {
	if s.Exact {
		return new(exactSet), nil
	}
	filter, err := membits.New(s.config())
	if err != nil {
		return nil, err
	}
	return newFilterSet(filter), nil
}

// readCard returns the card of dir. If dir has no card, the error is os.ErrNotExist. If
// the URLs in dir have a canonical form that this program cannot make, the error is
// canon.ErrForm.
func readCard(dir string) (c card, err error) {
	name := filepath.Join(dir, cardFile)
	text, err := os.ReadFile(name)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	if c.Format != format {
		return c, fmt.Errorf("%s has format %d, this program reads format %d: %w", name, c.Format, format, bloomstore.ErrParamsMismatch)
	}
	if c.LineKey == KeyURL {
		err = canon.CheckForm(c.Form)
	} else {
		if err = CheckLineKey(c.LineKey); err != nil {
			err = fmt.Errorf("line_key is %q, %w", c.LineKey, err)
		}
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", dir, err)
	}
	return c, nil
}

// ReadSettings returns the settings of dir, and the options that produce its canonical
// form. If dir is empty or keeps no set, the error is os.ErrNotExist.
func ReadSettings(dir string) (Settings, canon.Options, error) {
	if dir == "" {
		return Settings{}, canon.Options{}, os.ErrNotExist
	}
	c, err := readCard(dir)
	return c.Settings, c.Canon, err
}

// openStore opens the store in cfg.Dir, or creates it.
func openStore(cfg Config) (_ *store, err error) {
	s := &store{cfg: cfg}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	s.unlock, err = durable.Lock(vfs.Default, filepath.Join(cfg.Dir, lockFile))
	if errors.Is(err, durable.ErrHeld) {
		return nil, fmt.Errorf("%s is in use by another process", cfg.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", cfg.Dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.unlock.Close())
		}
	}()
	s.card, err = readCard(cfg.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return s, s.create()
	}
	if err != nil {
		return nil, err
	}
	if s.card.Settings != cfg.Settings {
		return nil, &SettingsError{Stored: s.card.Settings, Given: cfg.Settings}
	}
	return s, s.load()
}

// create makes an empty store. The card is written last, so a kill can leave journals
// without a card, but only empty ones.
func (s *store) create() error {
	if err := s.checkUncreated(); err != nil {
		return err
	}
	s.card = card{
		Format: format, Created: time.Now().UTC().Truncate(time.Second), Key: hexBytes(bloomstore.NewKey()),
		Settings: s.cfg.Settings, Canon: s.cfg.Canon,
	}
	_, _ = rand.Read(s.card.ID[:])
	var err error
	if s.seen, err = s.cfg.newSeen(s.cfg.now()); err != nil {
		return err
	}
	if w, is := s.seen.(*window); is {
		err = s.rotate(w.generations)
	} else {
		s.part, err = s.newPart(s.cfg.Dir, s.seen)
	}
	if err != nil {
		return err
	}
	return s.replaceJSON(cardFile, s.card)
}

// checkUncreated refuses a directory that has something else than an unfinished create can leave.
func (s *store) checkUncreated() error {
	var journals []string
	for _, pattern := range []string{"", generationPrefix + "*"} {
		found, err := filepath.Glob(filepath.Join(s.cfg.Dir, pattern, numbered(journalPrefix, 0, "")))
		if err != nil {
			return err
		}
		journals = append(journals, found...)
	}
	for _, name := range journals {
		if info, err := os.Stat(name); err != nil {
			return err
		} else if info.Size() > headerBytes {
			return fmt.Errorf("%w: %s has a journal with fingerprints but no %s", bloomstore.ErrFilterLost, s.cfg.Dir, cardFile)
		}
	}
	entries, err := os.ReadDir(s.cfg.Dir)
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockFile, name == generationsFile, name == numbered(journalPrefix, 0, ""),
			strings.HasSuffix(name, durable.NewSuffix), strings.HasPrefix(name, generationPrefix):
		default:
			return fmt.Errorf("%s has %s but no %s: it is not a directory of dedup", s.cfg.Dir, name, cardFile)
		}
	}
	return err
}

// newPart creates an empty part in a folder that exists.
func (s *store) newPart(dir string, set seen) (_ *part, err error) {
	p := &part{dir: dir, store: s, seen: set}
	p.journal, err = createJournal(p.path(journalPrefix, 0, ""), s.card.ID, 0)
	return p, err
}

// load reads the set.
func (s *store) load() (err error) {
	if s.card.Window == 0 {
		if s.part, err = s.loadPart(s.cfg.Dir); err == nil {
			s.seen = s.part.seen
		}
		return err
	}
	numbers, err := s.generations()
	if err != nil {
		return err
	}
	var generations []generation
	for _, number := range numbers {
		if s.part != nil {
			if err := s.part.journal.f.Close(); err != nil {
				return err
			}
		}
		if s.part, err = s.loadPart(s.folder(number)); err != nil {
			return err
		}
		generations = append(generations, generation{number, s.part.seen})
	}
	if s.seen, err = newWindow(s.card.Settings, generations); err != nil {
		return err
	}
	return s.removeFolders(numbers)
}

// generations returns the numbers of the generations, in order.
func (s *store) generations() (numbers []int64, err error) {
	name := filepath.Join(s.cfg.Dir, generationsFile)
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &numbers)
	}
	if err == nil && (len(numbers) == 0 || !slices.IsSorted(numbers)) {
		err = fmt.Errorf("it has the numbers %d", numbers)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", bloomstore.ErrFilterLost, name, err)
	}
	return numbers, nil
}

// rotate begins the last of the generations, and removes the folders of those that are not in the
// list. The fingerprints of all earlier generations must have been remembered.
func (s *store) rotate(generations []generation) error {
	newest := generations[len(generations)-1]
	folder := s.folder(newest.number)
	if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700)); err != nil {
		return fmt.Errorf("begin a generation: %w", err)
	}
	next, err := s.newPart(folder, newest.set)
	if err == nil {
		err = durable.SyncDir(vfs.Default, s.cfg.Dir)
	}
	if err != nil {
		return fmt.Errorf("begin a generation: %w", err)
	}
	crash.Point("begun")
	var numbers []int64
	for _, g := range generations {
		numbers = append(numbers, g.number)
	}
	if err := s.replaceJSON(generationsFile, numbers); err != nil {
		return fmt.Errorf("list the generations: %w", errors.Join(err, next.journal.f.Close()))
	}
	if s.part != nil {
		err = s.part.journal.f.Close()
	}
	s.part = next
	crash.Point("listed")
	return errors.Join(err, s.removeFolders(numbers))
}

func (s *store) folder(number int64) string {
	return filepath.Join(s.cfg.Dir, generationPrefix+strconv.FormatInt(number, 10))
}

// removeFolders removes the folders of all generations but those with these numbers.
func (s *store) removeFolders(numbers []int64) error {
	found, err := filepath.Glob(filepath.Join(s.cfg.Dir, generationPrefix+"*"))
	for _, folder := range found {
		if !slices.ContainsFunc(numbers, func(n int64) bool { return folder == s.folder(n) }) {
			err = errors.Join(err, os.RemoveAll(folder))
			crash.Point("dropped")
		}
	}
	return err
}

// loadPart reads the newest filter of a part and replays its journal.
func (s *store) loadPart(dir string) (*part, error) {
	p := &part{dir: dir, store: s}
	checkpoints, err := p.checkpoints()
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", bloomstore.ErrFilterLost, err)
	}
	if err != nil {
		return nil, err
	}
	if len(checkpoints) == 0 {
		p.seen, err = s.card.newPart()
	} else {
		p.checkpoint = slices.Max(checkpoints)
		p.seen, err = p.readFilter()
	}
	if err != nil {
		return nil, err
	}
	p.journal, err = openJournal(p.path(journalPrefix, p.checkpoint, ""), s.card.ID, p.checkpoint,
		func(fp bloomstore.Fingerprint) error {
			// A key was written to the journal only if the filter did not contain it. The
			// replay has the same order, so the filter must not contain the key yet.
			if !p.seen.add(fp) {
				return fmt.Errorf("%w: %x is known before it is added", bloomstore.ErrFilterLost, fp)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	return p, p.removeOld()
}

// checkpoints returns the numbers of the filters.
func (p *part) checkpoints() (numbers []uint64, err error) {
	entries, err := os.ReadDir(p.dir)
	for _, e := range entries {
		var c uint64
		if n, _ := fmt.Sscanf(e.Name(), filterPrefix+"%d"+filterSuffix, &c); n == 1 && e.Name() == numbered(filterPrefix, c, filterSuffix) {
			numbers = append(numbers, c)
		}
	}
	return numbers, err
}

func (p *part) readFilter() (seen, error) {
	name := p.path(filterPrefix, p.checkpoint, filterSuffix)
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	filter, err := membits.Read(f, p.store.card.config(), p.store.card.ID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return newFilterSet(filter), nil
}

// remember stores the fingerprints of printed lines for later runs.
func (s *store) remember(prints []bloomstore.Fingerprint) error {
	if len(prints) == 0 {
		return nil
	}
	if err := s.part.journal.append(prints); err != nil {
		return fmt.Errorf("remember %d URLs that were printed: %w", len(prints), err)
	}
	crash.Point("remembered")
	return nil
}

// maybeCheckpoint saves the filter if its journal has become long. The caller must
// first have called remember with all keys of the filter.
func (s *store) maybeCheckpoint() error {
	p := s.part
	filter, is := p.seen.(*filterSet)
	if !is || p.journal.keys < cmp.Or(s.cfg.interval, max(1_000_000, filter.Keys()/8)) {
		return nil
	}
	next := p.checkpoint + 1
	journal, err := createJournal(p.path(journalPrefix, next, ""), s.card.ID, next)
	if err != nil {
		return fmt.Errorf("begin a journal: %w", err)
	}
	if err := replace(p.path(filterPrefix, next, filterSuffix), func(w io.Writer) error {
		_, err := filter.Snapshot(s.card.ID).WriteTo(w)
		return err
	}); err != nil {
		return fmt.Errorf("save the filter: %w", errors.Join(err, journal.f.Close()))
	}
	err = p.journal.f.Close()
	p.journal, p.checkpoint = journal, next
	crash.Point("saved")
	return errors.Join(err, p.removeOld())
}

// removeOld removes older filters and journals, and incomplete files of killed runs.
func (p *part) removeOld() error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		ours := strings.HasPrefix(name, journalPrefix) || strings.HasPrefix(name, filterPrefix)
		if ours && name != numbered(journalPrefix, p.checkpoint, "") && name != numbered(filterPrefix, p.checkpoint, filterSuffix) {
			if err := os.Remove(filepath.Join(p.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// close releases the directory. All data is on disk already.
func (s *store) close() error { return errors.Join(s.part.journal.f.Close(), s.unlock.Close()) }

// numbered returns the file name of a checkpoint. Names sort like their numbers.
func numbered(prefix string, checkpoint uint64, suffix string) string {
	return fmt.Sprintf("%s%08d%s", prefix, checkpoint, suffix)
}

func (p *part) path(prefix string, checkpoint uint64, suffix string) string {
	return filepath.Join(p.dir, numbered(prefix, checkpoint, suffix))
}

// replaceJSON replaces a file of the directory by a value.
func (s *store) replaceJSON(name string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return replace(filepath.Join(s.cfg.Dir, name), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// replace replaces a file, atomically and durably.
func replace(name string, write func(io.Writer) error) error {
	// private, because the card contains the secret key of the fingerprints
	return durable.ReplacePrivate(vfs.Default, name, func(w io.Writer) error {
		err := write(w)
		if err == nil {
			crash.Point("half saved")
		}
		return err
	})
}
