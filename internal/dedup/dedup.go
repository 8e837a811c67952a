// Package dedup reads lines and writes those whose URL was not seen before, in order and
// without delay.
//
// It owns the stream of lines, the set of seen URLs (a filter, or an exact set) and the
// directory that keeps the set between runs. Package canon decides which URLs are equal.
// The caller limits the memory of the process, and tells users about settings and results.
// docs/reference/dedup.md lists the guarantees. The package does not depend on crawls.
package dedup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/human"
)

// Settings are the settings that a directory fixes when it is created.
type Settings struct {
	Exact bool    `json:"exact"`          // remember fingerprints themselves, not a filter
	URLs  uint64  `json:"urls,omitempty"` // see Capacity of membits.Config; not used with Exact
	FPR   float64 `json:"fpr,omitempty"`  // see membits.Config; not used with Exact
	Form  string  `json:"form"`           // canonical form of URLs; Run computes it from Config.Canon
}

// SettingsError reports a directory that was created with other settings.
type SettingsError struct{ Stored, Given Settings }

func (e *SettingsError) Error() string {
	return fmt.Sprintf("dedup: the directory was created with the settings %+v, not %+v", e.Stored, e.Given)
}

// Config describes a run. With the zero value, URLs are remembered in a filter of the
// default size, until the run ends.
type Config struct {
	Dir       string        // keeps the set for later runs, and is created if necessary; empty means none
	Settings                // must be the settings of Dir, if it exists
	Canon     canon.Options // canonical form of URLs
	Base      string        // an absolute URL to which lines can be relative; empty means none
	Canonical bool          // write canonical URLs instead of the lines themselves
	Null      bool          // lines end with a zero byte, not with a newline
	SetBytes  func(uint64)  // called with the size of the set when the size changes; can be nil

	// For tests: the number of new keys after which the filter is saved again. 0 means a
	// million or an eighth of all keys, whichever is more.
	interval uint64
}

// Result has the numbers of a run.
type Result struct {
	Lines                       uint64
	New, Seen, Malformed, Empty uint64 // their sum is Lines
	Before, Keys                uint64 // URLs in the set at the beginning and at the end
	Bytes                       uint64 // size of the set
}

// Run reads lines from input until the input or ctx ends, and writes those with new URLs to
// out. It writes descriptions of malformed lines to faults. If ctx ends, Run does not wait for
// a Read that is under way. If Run cannot begin to read, the result is nil. If cfg.Dir has
// other settings, the error is a *SettingsError.
func Run(ctx context.Context, cfg Config, input io.Reader, out, faults io.Writer) (_ *Result, err error) {
	s := &stream{cfg: cfg, out: out, faults: faults, end: '\n'}
	if cfg.Null {
		s.end = 0
	}
	if s.canon, err = canon.New(cfg.Canon); err != nil {
		return nil, err
	}
	if cfg.Base != "" {
		if s.base, err = s.canon.Parse(cfg.Base); err != nil {
			return nil, fmt.Errorf("dedup: Base: %w", err)
		}
	}
	cfg.Form = s.canon.Form()
	key := bloomstore.NewKey()
	if cfg.Dir == "" {
		s.seen, err = cfg.newSeen()
	} else {
		s.keep, err = openStore(cfg)
	}
	if err != nil {
		return nil, err
	}
	if s.keep != nil {
		defer func() { err = errors.Join(err, s.keep.close()) }()
		s.seen, key = s.keep.seen, bloomstore.Key(s.keep.card.Key)
	}
	s.hasher = bloomstore.NewHasher(key)
	s.result.Before = s.seen.keys()
	err = s.run(ctx, input)
	if more := s.result.Malformed; more > shownBad {
		fmt.Fprintf(faults, "… and %s more malformed lines\n", human.Commas(more-shownBad))
	}
	s.result.Keys, s.result.Bytes = s.seen.keys(), s.seen.bytes()
	return &s.result, err
}
