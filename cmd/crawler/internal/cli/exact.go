package cli

import (
	"errors"
	"slices"
	"strings"
)

// checkExact checks the flags that concern Postgres. It returns an error for each flag that
// is given without the --postgres or --sink postgres that it needs. It also returns an error
// if --postgres is given without --sink postgres and without --redis, or if two flags exclude
// each other.
func (o *options) checkExact() (errs []error) {
	switch {
	case o.settings.Sink == "postgres" && o.postgres == "":
		errs = append(errs, errors.New("--sink postgres needs --postgres"))
	case o.settings.Sink != "postgres" && o.postgres != "" && o.redis == "":
		errs = append(errs, errors.New("--postgres without --redis needs --sink postgres: the exact keys of a crawl in a directory are there"))
	}
	if o.settings.CDC && o.settings.Sink != "postgres" {
		errs = append(errs, errors.New("--cdc needs --sink postgres: it captures the rows of records"))
	}
	bulk := slices.ContainsFunc(o.settings.Windows, func(window string) bool { return strings.HasPrefix(window, "bulk=") })
	if bulk && o.redis != "" {
		errs = append(errs, errors.New("--window bulk=TIME is not possible with --redis: the filter in Redis does not forget; want --dir, or windows of exact classes with --postgres"))
	} else if len(o.settings.Windows) > 0 && o.redis != "" && o.postgres == "" {
		errs = append(errs, errors.New("--window with --redis needs --postgres: Redis does not note when a URL was finished"))
	}
	return errs
}
