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
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// A store is a directory that keeps the set of seen URLs between runs:
//
//	dedup.json          settings that were fixed when it was created
//	LOCK                held by the process that uses it
//	journal-G           fingerprints since filter-G, or since the beginning for G = 0
//	filter-G.bits       the filter as it was when journal-G began
//
// The newest filter is used, with the journal of the same number. A new journal is
// created before the new filter gets its name, so there is always one complete pair. An
// exact store has no filter, only a journal.
type store struct {
	cfg        Config
	card       card
	unlock     io.Closer
	seen       seen
	journal    *journal
	generation uint64
}

// format is the version of the directory's layout.
const format = 1

const (
	cardFile      = "dedup.json"
	lockFile      = "LOCK"
	journalPrefix = "journal-"
	filterPrefix  = "filter-"
	filterSuffix  = ".bits"
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

func (s Settings) config() membits.Config {
	return membits.Config{Capacity: s.URLs, FPR: s.FPR}
}

// newSeen returns an empty set.
func (s Settings) newSeen() (seen, error) {
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
	if err := canon.CheckForm(c.Form); err != nil {
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

// create makes an empty store. The card is written last, so a kill can leave a journal
// without a card, but only an empty one.
func (s *store) create() error {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); name != lockFile && name != numbered(journalPrefix, 0, "") && !strings.HasSuffix(name, durable.NewSuffix) {
			return fmt.Errorf("%s has %s but no %s: it is not a directory of dedup", s.cfg.Dir, name, cardFile)
		}
		if info, err := e.Info(); err != nil {
			return err
		} else if e.Name() == numbered(journalPrefix, 0, "") && info.Size() > headerBytes {
			return fmt.Errorf("%w: %s has a journal with fingerprints but no %s", bloomstore.ErrFilterLost, s.cfg.Dir, cardFile)
		}
	}
	s.card = card{
		Format: format, Created: time.Now().UTC().Truncate(time.Second), Key: hexBytes(bloomstore.NewKey()),
		Settings: s.cfg.Settings, Canon: s.cfg.Canon,
	}
	_, _ = rand.Read(s.card.ID[:])
	if s.seen, err = s.cfg.newSeen(); err != nil {
		return err
	}
	if s.journal, err = createJournal(s.path(journalPrefix, 0, ""), s.card.ID, 0); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s.card, "", "  ")
	if err != nil {
		return err
	}
	return s.replace(cardFile, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// load reads the newest filter and replays its journal.
func (s *store) load() error {
	generations, err := s.generations()
	if err != nil {
		return err
	}
	if len(generations) == 0 {
		s.seen, err = s.card.newSeen()
	} else {
		s.generation = slices.Max(generations)
		s.seen, err = s.readFilter()
	}
	if err != nil {
		return err
	}
	s.journal, err = openJournal(s.path(journalPrefix, s.generation, ""), s.card.ID, s.generation,
		func(fp bloomstore.Fingerprint) error {
			// A key was written to the journal only if the filter did not contain it. The
			// replay has the same order, so the filter must not contain the key yet.
			if !s.seen.add(fp) {
				return fmt.Errorf("%w: %x is known before it is added", bloomstore.ErrFilterLost, fp)
			}
			return nil
		})
	if err != nil {
		return err
	}
	return s.removeOld()
}

// generations returns the numbers of the filters.
func (s *store) generations() (numbers []uint64, err error) {
	entries, err := os.ReadDir(s.cfg.Dir)
	for _, e := range entries {
		var g uint64
		if n, _ := fmt.Sscanf(e.Name(), filterPrefix+"%d"+filterSuffix, &g); n == 1 && e.Name() == numbered(filterPrefix, g, filterSuffix) {
			numbers = append(numbers, g)
		}
	}
	return numbers, err
}

func (s *store) readFilter() (seen, error) {
	name := s.path(filterPrefix, s.generation, filterSuffix)
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	filter, err := membits.Read(f, s.card.config(), s.card.ID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return newFilterSet(filter), nil
}

// remember stores the fingerprints of printed URLs for later runs.
func (s *store) remember(prints []bloomstore.Fingerprint) error {
	if len(prints) == 0 {
		return nil
	}
	if err := s.journal.append(prints); err != nil {
		return fmt.Errorf("remember %d URLs that were printed: %w", len(prints), err)
	}
	crash.Point("remembered")
	return nil
}

// maybeCheckpoint saves the filter if its journal has become long. The caller must
// first have called remember with all keys of the filter.
func (s *store) maybeCheckpoint() error {
	filter, is := s.seen.(*filterSet)
	if !is || s.journal.keys < cmp.Or(s.cfg.interval, max(1_000_000, filter.count/8)) {
		return nil
	}
	next := s.generation + 1
	journal, err := createJournal(s.path(journalPrefix, next, ""), s.card.ID, next)
	if err != nil {
		return fmt.Errorf("begin a journal: %w", err)
	}
	if err := s.replace(numbered(filterPrefix, next, filterSuffix), func(w io.Writer) error {
		_, err := filter.Snapshot(s.card.ID).WriteTo(w)
		return err
	}); err != nil {
		return fmt.Errorf("save the filter: %w", errors.Join(err, journal.f.Close()))
	}
	err = s.journal.f.Close()
	s.journal, s.generation = journal, next
	crash.Point("saved")
	return errors.Join(err, s.removeOld())
}

// removeOld removes older filters and journals, and incomplete files of killed runs.
func (s *store) removeOld() error {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		ours := strings.HasPrefix(name, journalPrefix) || strings.HasPrefix(name, filterPrefix)
		if ours && name != numbered(journalPrefix, s.generation, "") && name != numbered(filterPrefix, s.generation, filterSuffix) {
			if err := os.Remove(filepath.Join(s.cfg.Dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// close releases the directory. All data is on disk already.
func (s *store) close() error { return errors.Join(s.journal.f.Close(), s.unlock.Close()) }

// numbered returns the file name of a generation. Names sort like their numbers.
func numbered(prefix string, generation uint64, suffix string) string {
	return fmt.Sprintf("%s%08d%s", prefix, generation, suffix)
}

func (s *store) path(prefix string, generation uint64, suffix string) string {
	return filepath.Join(s.cfg.Dir, numbered(prefix, generation, suffix))
}

// replace replaces a file of the directory, atomically and durably.
func (s *store) replace(name string, write func(io.Writer) error) error {
	// private, because the card contains the secret key of the fingerprints
	return durable.ReplacePrivate(vfs.Default, filepath.Join(s.cfg.Dir, name), func(w io.Writer) error {
		err := write(w)
		if err == nil {
			crash.Point("half saved")
		}
		return err
	})
}
