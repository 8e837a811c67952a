package crawl

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// hostTable has the rows of Config.Hosts, in the same order.
type hostTable []hostRow

type hostRow struct {
	Host
	pattern *regexp.Regexp
}

func newHostTable(hosts []Host) hostTable {
	table := make(hostTable, len(hosts))
	for i, h := range hosts {
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(strings.ToLower(h.Pattern)), `\*`, ".*") + "$"
		table[i] = hostRow{h, regexp.MustCompile(pattern)}
	}
	return table
}

// check returns an error that names every fault of the table.
func (t hostTable) check() error {
	var errs []error
	for _, h := range t {
		add := func(err error) { errs = append(errs, fmt.Errorf("crawl: Hosts: %q: %w", h.Pattern, err)) }
		if h.Delay < 0 {
			add(fmt.Errorf("Delay is %v, want 0 or more", h.Delay))
		}
		if h.Concurrency < 0 {
			add(fmt.Errorf("Concurrency is %d, want 0 or more", h.Concurrency))
		}
		if !slices.Contains([]string{"", "obey", "ignore"}, h.Robots) {
			add(fmt.Errorf("Robots is %q, want obey or ignore", h.Robots))
		}
		for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
			if err := get.CheckHeader(name, h.Headers[name]); err != nil {
				add(err)
			}
		}
	}
	return errors.Join(errs...)
}

// match returns the first row that matches a host key, or nil.
func (t hostTable) match(key string) *Host {
	for i := range t {
		if t[i].pattern.MatchString(key) {
			return &t[i].Host
		}
	}
	return nil
}

// limits returns the settings that the store applies to a host key.
func (t hostTable) limits(key string) frontier.HostLimits {
	key, _ = frontier.Checked(key)
	if h := t.match(key); h != nil {
		return frontier.HostLimits{Delay: h.Delay, MaxPerHost: h.Budget}
	}
	return frontier.HostLimits{}
}

// concurrency returns the largest Concurrency of the hosts.
func (t hostTable) concurrency() int {
	most := 0
	for _, row := range t {
		most = max(most, row.Concurrency)
	}
	return most
}

// rules returns a function that returns the worker's rules for a host key.
func (t hostTable) rules(robots string, policy politeness.Policy) func(string) fetcher.HostRules {
	general := fetcher.HostRules{IgnoreRobots: robots == "ignore"}
	return func(key string) fetcher.HostRules {
		h := t.match(key)
		if h == nil {
			return general
		}
		rules := general
		rules.HostConcurrency = h.Concurrency
		if h.Robots != "" {
			rules.IgnoreRobots = h.Robots == "ignore"
		}
		for name, text := range h.Headers {
			if rules.Header == nil {
				rules.Header = make(map[string][]string)
			}
			rules.Header[name] = []string{text}
		}
		if h.Delay > 0 {
			own := policy
			own.Delay = h.Delay
			rules.Politeness = &own
		}
		return rules
	}
}
