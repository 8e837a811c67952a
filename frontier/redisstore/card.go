package redisstore

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/redisbits"
)

// format is the version of the keys and their values.
const format = 6

// Fields of the hash Config.cardKey.
const (
	cardField   = "card"   // the settings that were fixed when the crawl was created
	readyField  = "ready"  // exists once the filters of all partitions were created
	pausedField = "paused" // exists while the crawl is paused
	closedField = "closed" // exists while the crawl cannot be opened; the value says why
)

// ErrNoCrawl reports that there is no crawl with the given name.
var ErrNoCrawl = errors.New("redisstore: no such crawl")

// card has the settings that were fixed when the crawl was created. It is written once.
type card struct {
	Format     int               `json:"format"`
	Created    time.Time         `json:"created"`
	ID         string            `json:"id"`  // part of the names of the partitions' keys
	Key        hexKey            `json:"key"` // key of the fingerprints; secret
	Partitions int               `json:"partitions"`
	LeaseMS    int64             `json:"lease_ms"` // TTL of all workers' leases
	Filter     filterCard        `json:"filter"`
	ExactSet   bool              `json:"exact_set,omitempty"`
	BySite     bool              `json:"by_site,omitempty"` // the site of a host decides its partition: see Store.partition
	Settings   frontier.Settings `json:"settings"`
}

type filterCard struct {
	Keys     uint64  `json:"keys"`
	FPR      float64 `json:"fpr"`
	NoGrowth bool    `json:"no_growth"`
}

type hexKey bloomstore.Key

func (k hexKey) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

func (k *hexKey) UnmarshalText(text []byte) error {
	if n, err := hex.Decode(k[:], text); err != nil || n != len(k) || len(text) != 2*len(k) {
		return errors.New("the key is not 32 hex digits") // the message does not show the key, because it is secret
	}
	return nil
}

func newCard(cfg *Config) card {
	now := time.Now
	if cfg.Now != nil {
		now = cfg.Now
	}
	return card{
		Format: format, Created: now().UTC().Truncate(time.Second), ID: newID(), Key: hexKey(bloomstore.NewKey()),
		Partitions: cfg.Partitions, LeaseMS: millis(cfg.LeaseTTL), Filter: filterCard{cfg.Capacity, cfg.FPR, cfg.Growth == bloomstore.GrowthOff},
		ExactSet: cfg.Exact != nil, BySite: cfg.Policy().LimitsSites(), Settings: cfg.Settings,
	}
}

// newID returns six random letters and digits, so that a crawl's keys differ from those of
// a crawl that was deleted before.
func newID() string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	id := make([]byte, 6)
	for i := range id {
		id[i] = digits[rand.IntN(len(digits))]
	}
	return string(id)
}

// parseCard reads a card that another process wrote.
func parseCard(name, text string) (c card, err error) {
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, fmt.Errorf("redisstore: crawl %q has no card that can be read: %w: %w", name, frontier.ErrParamsMismatch, err)
	}
	if c.Format != format {
		return c, mismatch("crawl %q has format %d, this program reads format %d", name, c.Format, format)
	}
	if c.Partitions < 1 || c.Partitions > maxPartitions || c.LeaseMS < 1000 || c.ID == "" {
		return c, mismatch("crawl %q has a damaged card", name)
	}
	return c, nil
}

// accept compares the card with a caller's settings. Zero fields are not compared. If
// worker is false, it compares Settings only if they are given, and does not compare Exact
// and Growth.
func (c *card) accept(cfg *Config, worker bool) error {
	if worker || cfg.Settings != nil {
		if err := c.Settings.Compare(cfg.Settings); err != nil {
			return err
		}
	}
	switch {
	case worker && c.ExactSet && cfg.Exact == nil:
		return mismatch("crawl %q was created with an exact set beside it, not without one", cfg.Name)
	case worker && !c.ExactSet && cfg.Exact != nil:
		return mismatch("crawl %q was created without an exact set beside it, not with one", cfg.Name)
	}
	given := filterCard{cmp.Or(cfg.Capacity, c.Filter.Keys), cmp.Or(cfg.FPR, c.Filter.FPR), c.Filter.NoGrowth}
	if worker {
		given.NoGrowth = cfg.Growth == bloomstore.GrowthOff
	}
	if given != c.Filter {
		return mismatch("crawl %q was created with filter %+v, not %+v", cfg.Name, c.Filter, given)
	}
	if cfg.Partitions != 0 && cfg.Partitions != c.Partitions {
		return mismatch("crawl %q was created with %d partitions, not %d", cfg.Name, c.Partitions, cfg.Partitions)
	}
	return nil
}

// mismatchError is an error that matches frontier.ErrParamsMismatch.
type mismatchError string

func mismatch(format string, args ...any) error {
	return mismatchError("redisstore: " + fmt.Sprintf(format, args...))
}

func (e mismatchError) Error() string        { return string(e) }
func (e mismatchError) Is(target error) bool { return target == frontier.ErrParamsMismatch }

// Stored returns the settings of the crawl cfg.Name, and the id that it got when it was created, or
// ErrNoCrawl. It uses only Redis and Name of cfg.
func Stored(ctx context.Context, cfg Config) (settings frontier.Settings, id string, err error) {
	c, err := storedCard(ctx, cfg)
	return c.Settings, c.ID, err
}

// StoredHasher returns the hasher of the fingerprints of the crawl cfg.Name, or ErrNoCrawl.
// It uses only Redis and Name of cfg.
func StoredHasher(ctx context.Context, cfg Config) (bloomstore.Hasher, error) {
	c, err := storedCard(ctx, cfg)
	return bloomstore.NewHasher(bloomstore.Key(c.Key)), err
}

func storedCard(ctx context.Context, cfg Config) (card, error) {
	s, err := connect(ctx, cfg)
	if err != nil {
		return card{}, err
	}
	defer s.Close()
	return s.readCard(ctx)
}

// readCard returns the crawl's card, or ErrNoCrawl.
func (s *Store) readCard(ctx context.Context) (card, error) {
	text, err := s.client.HGet(ctx, s.cfg.cardKey(), cardField).Result()
	if errors.Is(err, redis.Nil) {
		return card{}, fmt.Errorf("%w: %q", ErrNoCrawl, s.cfg.Name)
	}
	if err != nil {
		return card{}, s.classify(ctx, err)
	}
	return parseCard(s.cfg.Name, text)
}

// Card returns the crawl's card, from which Recreate restores the crawl. The card is secret,
// because it contains the key of the fingerprints, which allows a site to make URLs that
// collide.
func (s *Store) Card() ([]byte, error) {
	text, err := json.Marshal(s.card)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	return text, nil
}

// createCard writes a card, unless another worker has written one, and returns the stored card.
func (s *Store) createCard(ctx context.Context) (card, error) {
	s.cfg.fillFixed()
	text, err := json.Marshal(newCard(&s.cfg))
	if err != nil {
		return card{}, fmt.Errorf("redisstore: %w", err)
	}
	if err := s.client.HSetNX(ctx, s.cfg.cardKey(), cardField, text).Err(); err != nil {
		return card{}, s.classify(ctx, err)
	}
	return s.readCard(ctx)
}

// join reads the crawl's card. A worker creates it if there is none.
func (s *Store) join(ctx context.Context) error {
	given := s.cfg
	c, err := s.readCard(ctx)
	if errors.Is(err, ErrNoCrawl) && s.worker {
		c, err = s.createCard(ctx)
	}
	if err != nil {
		return err
	}
	if err := c.accept(&given, s.worker); err != nil {
		return err
	}
	s.card, s.hasher = c, bloomstore.NewHasher(bloomstore.Key(c.Key))
	s.cfg.Capacity, s.cfg.FPR, s.cfg.Growth = c.Filter.Keys, c.Filter.FPR, bloomstore.GrowthOn
	if c.Filter.NoGrowth {
		s.cfg.Growth = bloomstore.GrowthOff
	}
	s.cfg.Partitions, s.cfg.Settings = c.Partitions, c.Settings
	if !c.ExactSet {
		s.cfg.Exact = nil
	} else if s.cfg.Exact == nil {
		s.cfg.Exact = &exact.Client{Err: errors.New("redisstore: this process has no exact set")}
	}
	s.cfg.LeaseTTL = time.Duration(c.LeaseMS) * time.Millisecond
	s.acknowledged = make([]atomic.Uint64, s.cfg.Partitions)
	s.ledger.dir, s.ledger.parts = s.cfg.TempDir, make([]partLedger, s.cfg.Partitions)
	return s.makePartitions()
}

// makePartitions computes the crawl's partitions.
func (s *Store) makePartitions() error {
	filter := redisbits.Config{Capacity: s.cfg.Capacity, FPR: s.cfg.FPR, Growth: s.cfg.Growth, Partitions: s.cfg.Partitions}
	var err error
	if s.layout, err = redisbits.NewLayout(filter.Params()); err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	s.parts = make([]*partition, s.cfg.Partitions)
	for i := range s.parts {
		s.parts[i] = newPartition(s.card.ID, i)
		s.parts[i].filter.Store(s.newChain(s.parts[i]))
	}
	s.leaser = newLeaser(s.parts)
	return nil
}

// newChain returns the filter of a partition. It reads nothing from the server.
func (s *Store) newChain(p *partition) *redisbits.Chain {
	return s.layout.Chain(redisbits.ID(s.hasher.Fingerprint(s.card.ID)), p.number, p.tag)
}

// openFilters opens the filters of all partitions. It first creates them if the creation of
// the crawl was not finished. A filter that existed is never created again, because every
// URL would be new to an empty filter.
func (s *Store) openFilters(ctx context.Context) error {
	ready, err := s.client.HExists(ctx, s.cfg.cardKey(), readyField).Result()
	if err != nil {
		return s.classify(ctx, err)
	}
	err = redisbits.Each(ctx, s.parts, func(ctx context.Context, p *partition) error {
		if !ready {
			if err := p.chain().Create(ctx, s.client); err != nil {
				return err
			}
			if err := s.firstEpoch(ctx, p); err != nil {
				return err
			}
		}
		return p.chain().Open(ctx, s.client)
	})
	if err != nil || ready {
		return s.classify(ctx, err)
	}
	return s.classify(ctx, s.client.HSet(ctx, s.cfg.cardKey(), readyField, 1).Err())
}
