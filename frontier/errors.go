package frontier

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/bloomstore"
)

var (
	// ErrLeaseLost reports that the caller does not hold the lease any more:
	// its items may be with another worker.
	ErrLeaseLost = errors.New("frontier: lease lost")
	// ErrUnavailable reports that the store cannot be asked now. Hold what you
	// have, back off, take no new lease; nothing is lost.
	ErrUnavailable = errors.New("frontier: store unavailable")
	// ErrFull reports that the store takes no more items. It still hands out
	// and completes.
	ErrFull = errors.New("frontier: store full")
	// ErrFilterLost reports that the bits of the seen filter are gone: going on
	// would make every URL new. The crawl stops.
	ErrFilterLost = bloomstore.ErrFilterLost
	// ErrParamsMismatch reports that the store was made with other parameters;
	// a *SettingsError is one.
	ErrParamsMismatch = bloomstore.ErrParamsMismatch
	// ErrClosed reports a call to a store that was closed.
	ErrClosed = errors.New("frontier: store closed")
	// ErrLocked reports that another process has the store open.
	ErrLocked = errors.New("frontier: store is in use by another process")
)

// SettingsError reports settings that differ from those a crawl was created
// with. It is an ErrParamsMismatch.
type SettingsError struct{ Differ []SettingDiff }

// SettingDiff is one setting that differs; an absent one is empty.
type SettingDiff struct{ Name, Stored, Given string }

func (e *SettingsError) Error() string {
	var b strings.Builder
	b.WriteString("frontier: the crawl was created with other settings:")
	for i, d := range e.Differ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s is %q, not %q", d.Name, d.Stored, d.Given)
	}
	return b.String()
}

func (e *SettingsError) Is(target error) bool { return target == ErrParamsMismatch }

// Compare returns nil or a *SettingsError with every difference between the
// settings of a crawl and those given, ordered by name.
func (stored Settings) Compare(given Settings) error {
	var differ []SettingDiff
	for name, value := range given {
		if have, ok := stored[name]; !ok || have != value {
			differ = append(differ, SettingDiff{name, have, value})
		}
	}
	for name, value := range stored {
		if _, ok := given[name]; !ok {
			differ = append(differ, SettingDiff{name, value, ""})
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.SortFunc(differ, func(a, b SettingDiff) int { return strings.Compare(a.Name, b.Name) })
	return &SettingsError{Differ: differ}
}

// BalanceError reports books that do not balance.
type BalanceError struct {
	Term         string // "found" or "added"
	Counted, Sum uint64 // the term's own counter, and what its parts add up to
	Books        Books
}

func (e *BalanceError) Error() string {
	b := e.Books
	if e.Term == "found" {
		return fmt.Sprintf("frontier: found is %d, but added %d + seen %d + refused %d = %d",
			e.Counted, b.Added, b.Seen, b.RefusedTotal(), e.Sum)
	}
	return fmt.Sprintf("frontier: added is %d, but queued %d + leased %d + done %d + failed %d = %d",
		e.Counted, b.Queued, b.Leased, b.Done, b.Failed, e.Sum)
}
