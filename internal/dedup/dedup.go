// Package dedup reads lines and writes those whose URL, or other key, was not seen before, in
// order and without delay.
//
// It owns the stream of lines, the keys of lines, the set of seen keys (a filter, or an exact set;
// with a window, generations of them) and the directory that keeps the set between runs. Package
// canon decides which URLs are equal.
// The caller limits the memory of the process, and tells users about settings and results.
// docs/reference/dedup.md lists the guarantees. The package does not depend on crawls.
package dedup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/human"
)

// Settings are the settings that a directory fixes when it is created.
type Settings struct {
	Exact bool    `json:"exact"`          // remember fingerprints themselves, not a filter
	URLs  uint64  `json:"urls,omitempty"` // see Capacity of membits.Config and WindowConfig; not used with Exact
	FPR   float64 `json:"fpr,omitempty"`  // see membits.Config and WindowConfig; not used with Exact
	Form  string  `json:"form,omitempty"` // canonical form of URLs; Run computes it from Config.Canon

	LineKey string `json:"line_key,omitempty"` // what identifies a line: see CheckLineKey

	// Window is how long a key is remembered at least after it was printed; 0 means for ever. It is
	// a second for each generation, or more.
	Window      human.Seconds `json:"window_seconds,omitempty"`
	Generations int           `json:"generations,omitempty"` // of a window: see WithGenerations
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

	now func() time.Time // for tests; nil means time.Now

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
	if cfg.now == nil {
		cfg.now = time.Now
	}
	s := &stream{out: out, faults: faults, end: '\n'}
	if cfg.Null {
		s.end = 0
	}
	if cfg.Form, err = s.setKey(cfg); err != nil {
		return nil, err
	}
	s.cfg = cfg
	key := bloomstore.NewKey()
	if cfg.Dir == "" {
		s.seen, err = cfg.newSeen(cfg.now())
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

// setKey sets how the stream finds the keys of lines. It returns the canonical form of URLs, or ""
// if the keys are not URLs.
func (s *stream) setKey(cfg Config) (form string, err error) {
	if err := CheckLineKey(cfg.LineKey); err != nil {
		return "", fmt.Errorf("dedup: LineKey is %q, %w", cfg.LineKey, err)
	}
	if cfg.LineKey != KeyURL {
		s.key = newKeyer(cfg.LineKey)
		return "", nil
	}
	c, err := canon.New(cfg.Canon)
	if err != nil {
		return "", err
	}
	var base canon.URL // the zero value means that lines cannot be relative
	if cfg.Base != "" {
		if base, err = c.Parse(cfg.Base); err != nil {
			return "", fmt.Errorf("dedup: Base: %w", err)
		}
	}
	s.key = urlKeyer(c, base, &s.url)
	return c.Form(), nil
}
