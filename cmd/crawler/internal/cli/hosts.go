package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/crawl/settings"

	"go.yaml.in/yaml/v3"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/internal/human"
)

// shownHost returns the settings of hosts in one line. It leaves out the values of
// headers.
func shownHost(h *crawl.Host) string {
	line := []string{h.Pattern}
	add := func(is bool, format string, value any) {
		if is {
			line = append(line, fmt.Sprintf(format, value))
		}
	}
	add(h.Delay > 0, "delay %v", h.Delay)
	add(h.Concurrency > 0, "concurrency %d", h.Concurrency)
	add(h.Budget > 0, "budget %d", h.Budget)
	add(h.Robots != "", "robots %s", h.Robots)
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		line = append(line, "header "+name)
	}
	return strings.Join(line, ", ")
}

// readHosts reads the hosts of the config file.
func (l *layers) readHosts(name string, node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: hosts: want host patterns, such as \"*.example.org\", each with its values", name, node.Line)
	}
	var errs []error
	seen := make(map[string]bool)
	for key, body := range pairs(node) {
		h := crawl.Host{Pattern: strings.ToLower(key.Value)}
		at := fmt.Sprintf("hosts: %s", h.Pattern)
		switch {
		case seen[h.Pattern]:
			errs = append(errs, fmt.Errorf("%s:%d: %s is given twice", name, key.Line, at))
		case body.Kind != yaml.MappingNode:
			errs = append(errs, fmt.Errorf("%s:%d: %s: want delay, concurrency, budget, headers or robots", name, body.Line, at))
		default:
			for key, value := range pairs(body) {
				if err := setHost(&h, key.Value, value); err != nil {
					errs = append(errs, fmt.Errorf("%s:%d: %s: %w", name, key.Line, at, err))
				}
			}
		}
		seen[h.Pattern] = true
		l.hosts = append(l.hosts, h)
	}
	return errors.Join(errs...)
}

// setHost sets one value of h.
func setHost(h *crawl.Host, key string, node *yaml.Node) (err error) {
	switch key {
	case "delay":
		if h.Delay, err = time.ParseDuration(node.Value); err != nil || h.Delay <= 0 {
			return fmt.Errorf("delay is %q, want a duration of more than 0, such as 5s", node.Value)
		}
	case "concurrency":
		if node.Decode(&h.Concurrency) != nil || h.Concurrency < 1 || h.Concurrency > settings.MaxHostConcurrency {
			return fmt.Errorf("concurrency is %q, want 1 to %d", node.Value, settings.MaxHostConcurrency)
		}
	case "budget":
		var n human.Count
		if err := n.Set(node.Value); err != nil {
			return fmt.Errorf("budget is %q, %w", node.Value, err)
		}
		h.Budget = uint64(n)
	case "headers":
		if node.Decode(&h.Headers) != nil {
			return errors.New("headers: want names with values")
		}
		var errs []error
		for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
			errs = append(errs, get.CheckHeader(name, h.Headers[name]))
		}
		return errors.Join(errs...)
	case "robots":
		if h.Robots = node.Value; h.Robots != "obey" && h.Robots != "ignore" {
			return fmt.Errorf("robots is %q, want obey or ignore", h.Robots)
		}
	default:
		return fmt.Errorf("unknown key %q, want delay, concurrency, budget, headers or robots", key)
	}
	return nil
}
