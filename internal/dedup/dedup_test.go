package dedup

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// TestCard: the form of dedup.json does not change.
func TestCard(t *testing.T) {
	c := card{Format: format, ID: hexBytes{1}, Key: hexBytes{15: 2}}
	const begin = `{"format":2,"created":"0001-01-01T00:00:00Z","id":"01000000000000000000000000000000","key":"00000000000000000000000000000002",`
	const end = `"form":"f","canon":{"StripParams":null,"KeepParams":null,"SortQuery":false,"HostKey":0}}`
	for settings, want := range map[Settings]string{
		{URLs: 1000, FPR: 0.5, Form: "f"}: `"exact":false,"urls":1000,"fpr":0.5,`,
		{Exact: true, Form: "f"}:          `"exact":true,`,
	} {
		c.Settings = settings
		if text, err := json.Marshal(c); err != nil || string(text) != begin+want+end {
			t.Errorf("%s, %v, want\n%s", text, err, begin+want+end)
		}
	}
}

// TestOtherSettingsAreRefused: Run returns the stored settings and the given ones.
func TestOtherSettingsAreRefused(t *testing.T) {
	for _, c := range []struct{ first, then Config }{
		{Config{Settings: small}, Config{Settings: standard}},
		{Config{Settings: small}, Config{Settings: exact}},
		{Config{Settings: exact}, Config{Settings: small}},
		{Config{Settings: small}, Config{Settings: small, Canon: canon.Options{SortQuery: true}}},
	} {
		dir := t.TempDir()
		c.first.Dir, c.then.Dir = dir, dir
		mustDedup(t, "http://a.test/\n", c.first)
		got, err := dedup(t.Context(), "http://a.test/\n", c.then)
		differ, is := errors.AsType[*SettingsError](err)
		if !is || got.Result != nil || differ.Stored != stored(t, dir).Settings || differ.Given == differ.Stored {
			t.Errorf("%+v, then %+v: %v, want both settings", c.first, c.then, err)
		}
	}
}

// TestFaultsOfLines: the first malformed lines are described, and the others counted.
func TestFaultsOfLines(t *testing.T) {
	var in strings.Builder
	for i := range 25 {
		fmt.Fprintf(&in, "http://a.test/%d\nhttp://bad host/\n", i)
	}
	got := mustDedup(t, in.String(), Config{})
	if n := strings.Count(got.faults, "malformed URL"); n != 10 {
		t.Errorf("%d lines are described, want 10", n)
	}
	for _, want := range []string{"line 2: ", "line 20: ", "and 15 more"} {
		if !strings.Contains(got.faults, want) {
			t.Errorf("the faults have not %q:\n%s", want, got.faults)
		}
	}
	if r := got.Result; r.Lines != 50 || r.New != 25 || r.Seen != 0 || r.Malformed != 25 || r.Empty != 0 {
		t.Errorf("counted %+v, want 25 new and 25 malformed lines", r)
	}
}

// TestSetBytes: SetBytes is called at the beginning and when the set grows.
func TestSetBytes(t *testing.T) {
	for _, settings := range []Settings{small, exact} {
		var sizes []uint64
		got := mustDedup(t, urls(30_000), Config{Settings: settings, SetBytes: func(bytes uint64) { sizes = append(sizes, bytes) }})
		if len(sizes) < 2 || !slices.IsSorted(sizes) || sizes[len(sizes)-1] != got.Bytes {
			t.Errorf("%v: called with %d, want increasing sizes up to %d", settings, sizes, got.Bytes)
		}
	}
}
