package cli

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// formFlags are the flags for the canonical form of URLs. The commands share them, so that two
// URLs are equal for all commands or for none.
type formFlags struct {
	Strip, Keep []string
	Sort        bool
}

// formNames are the names of the flags.
var formNames = []string{"strip-param", "keep-param", "sort-query"}

// addTo adds the flags to a flag set.
func (f *formFlags) addTo(set *pflag.FlagSet) {
	set.StringArrayVar(&f.Strip, "strip-param", nil, "remove this query `PARAMETER`, beside the default list; - removes none (repeatable)")
	set.StringArrayVar(&f.Keep, "keep-param", nil, "keep this query `PARAMETER` (repeatable)")
	set.BoolVar(&f.Sort, "sort-query", false, "treat URLs that differ only in the order of query parameters as one URL")
	for _, name := range []string{"strip-param", "keep-param"} {
		restrict.Check(set, name, func(text string) error {
			if _, err := canon.New(canon.Options{StripParams: []string{text}}); text != "-" && err != nil {
				return errors.New("want a parameter's name, with * at its end only, such as sid or utm_*")
			}
			return nil
		})
	}
}

// options returns the canonical form that the flags ask for. Its HostKey is the default.
func (f *formFlags) options() canon.Options {
	strip := canon.DefaultStrip()
	if slices.Contains(f.Strip, "-") {
		strip = []string{}
	}
	for _, name := range f.Strip {
		if name != "-" {
			strip = append(strip, name)
		}
	}
	return canon.Options{StripParams: strip, KeepParams: f.Keep, SortQuery: f.Sort}
}
