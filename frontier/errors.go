package frontier

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/bloomstore"
)

var (
	// ErrLeaseLost reports that the caller no longer holds the lease. Another
	// worker might have its items.
	ErrLeaseLost = errors.New("frontier: lease lost")
	// ErrUnavailable reports that the store cannot be reached at present. Nothing
	// is lost. A worker keeps its leases, waits, and repeats the call.
	ErrUnavailable = errors.New("frontier: store unavailable")
	// ErrFull reports that the store accepts no more items. Leasing and completing
	// still work.
	ErrFull = errors.New("frontier: store full")
	// ErrFilterLost reports that the bits of the filter are gone. The crawl stops,
	// because every URL would look new.
	ErrFilterLost = bloomstore.ErrFilterLost
	// ErrParamsMismatch reports that the store was created with other parameters.
	// A *SettingsError matches it under errors.Is.
	ErrParamsMismatch = bloomstore.ErrParamsMismatch
	// ErrClosed reports a call to a closed store.
	ErrClosed = errors.New("frontier: store closed")
	// ErrLocked reports that another process has the store open.
	ErrLocked = errors.New("frontier: store is in use by another process")
)

// SettingsError reports settings that differ from those that a crawl was created
// with. It matches ErrParamsMismatch under errors.Is.
type SettingsError struct{ Differ []SettingDiff } // ordered by name

// SettingDiff is one setting that differs. Stored is empty if the crawl has no such
// setting. Given is empty if the caller gave no such setting.
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

// Is reports whether target is ErrParamsMismatch.
func (e *SettingsError) Is(target error) bool { return target == ErrParamsMismatch }

// Compare returns nil if the stored and the given settings are equal. Otherwise it
// returns a *SettingsError with every difference.
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
