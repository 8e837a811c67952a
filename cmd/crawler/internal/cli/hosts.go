package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher/get"
)

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
			errs = append(errs, fmt.Errorf("%s:%d: %s: want delay, concurrency, domain-rate, budget, robots, recrawl, weight or headers", name, body.Line, at))
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
func setHost(h *crawl.Host, key string, node *yaml.Node) error {
	if key != "headers" {
		return h.Set(key, node.Value)
	}
	if node.Decode(&h.Headers) != nil {
		return errors.New("headers: want names with values")
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		errs = append(errs, get.CheckHeader(name, h.Headers[name]))
	}
	return errors.Join(errs...)
}
