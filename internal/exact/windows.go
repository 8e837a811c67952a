package exact

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// Classes is the maximum number of classes. A store uses four bits for a class.
const Classes = 16

// Windows has, for each class, the time for which a finished key counts as seen; 0 means
// for ever. After that time the key is new again, in another round. Bulk keys can count as seen
// somewhat longer: see localstore.Config.
type Windows [Classes]time.Duration

// ParseWindows parses windows such as "seeds=24h,depth<=1=7d,bulk=30d": names of classes of rules, or
// bulk for all other URLs, each with a duration as in time.ParseDuration or in days. A duration is at least one
// second; 0 means for ever. The error names all faults.
func ParseWindows(text string, rules *Rules) (Windows, error) {
	var windows Windows
	var errs []error
	given := map[frontier.Class]bool{}
	for _, part := range splitList(text) {
		fault := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("window %q: "+format, append([]any{part}, args...)...))
		}
		at := strings.LastIndexByte(part, '=')
		if at < 0 {
			fault("want a class and how long its URLs count as seen, as in seeds=24h")
			continue
		}
		class, ok := rules.ClassOf(part[:at])
		if !ok && part[:at] != bulk {
			fault("no class has the name %q; want one of %s", part[:at], strings.Join(append(rules.names(), bulk), ", "))
			continue
		}
		window, err := parseWindow(part[at+1:])
		switch {
		case err != nil:
			fault("%w", err)
		case given[class]:
			fault("the class has a window already")
		}
		given[class] = true
		windows[class] = window
	}
	return windows, errors.Join(errs...)
}

// parseWindow parses a duration or a number of days, such as 36h or 7d.
func parseWindow(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n <= uint64(maxWindow/day) {
			return time.Duration(n) * day, nil
		}
	}
	window, err := time.ParseDuration(text)
	if err != nil || window != 0 && window < time.Second || window > maxWindow {
		return 0, fmt.Errorf("%q is neither 0 nor a duration from 1s to %dd", text, maxWindow/day)
	}
	return window, nil
}

// maxWindow is the longest window. Databases can store the time at which it ends.
const maxWindow = 36500 * 24 * time.Hour
