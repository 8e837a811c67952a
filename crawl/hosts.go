package crawl

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// checkHosts returns an error that names every fault of Settings.Hosts. The argument recrawl is Settings.Recrawl.
func checkHosts(hosts []Host, recrawl string) error {
	var errs []error
	for _, h := range hosts {
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
		if _, err := revisit.ParseAim(cmp.Or(h.Recrawl, "off")); err != nil {
			add(fmt.Errorf("Recrawl is %q, %w", h.Recrawl, err))
		} else if h.Recrawl != "" && h.Recrawl != "off" && recrawl == "off" {
			add(fmt.Errorf("Recrawl is %q, but Settings.Recrawl is off: pages of other hosts need one, too, such as 90d", h.Recrawl))
		}
		if h.Weight != 0 && !(h.Weight >= settings.MinWeight && h.Weight <= settings.MaxWeight) {
			add(fmt.Errorf("Weight is %v, want %v to %v, or 0 for 1", h.Weight, settings.MinWeight, settings.MaxWeight))
		}
		for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
			if err := get.CheckHeader(name, h.Headers[name]); err != nil {
				add(err)
			}
		}
	}
	return errors.Join(errs...)
}

// hostTable returns the part of the policy that comes from Settings.Hosts.
func hostTable(hosts []Host) policy.Hosts {
	rows := make([]policy.Override, len(hosts))
	for i, h := range hosts {
		row := policy.Override{Pattern: h.Pattern, Delay: h.Delay, Concurrency: h.Concurrency, DomainRate: h.DomainRate, MaxItems: h.Budget}
		if h.Robots != "" {
			ignore := h.Robots == "ignore"
			row.IgnoreRobots = &ignore
		}
		if row.Weight = h.Weight; h.Recrawl != "" {
			aim, _ := revisit.ParseAim(h.Recrawl) // see checkHosts
			row.Recrawl = &aim
		}
		for name, text := range h.Headers {
			if row.Header == nil {
				row.Header = make(map[string][]string)
			}
			row.Header[name] = []string{text}
		}
		rows[i] = row
	}
	return policy.NewHosts(rows...)
}

// mostConcurrency returns the largest Concurrency of the hosts.
func mostConcurrency(hosts []Host) int {
	most := 0
	for _, h := range hosts {
		most = max(most, h.Concurrency)
	}
	return most
}
