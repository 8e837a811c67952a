package cli

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/human"
)

// hostPattern is an entry of the config file's hosts: what differs for host
// keys that match. The first that matches counts. Headers are not fixed when
// the crawl is created, and may be secret: they are not stored.
type hostPattern struct {
	Pattern     string            `json:"pattern"`
	Delay       time.Duration     `json:"delay,omitempty"`
	Concurrency int               `json:"concurrency,omitempty"`
	Budget      uint64            `json:"budget,omitempty"` // as --max-per-host
	Robots      string            `json:"robots,omitempty"`
	Headers     map[string]string `json:"-"`

	hosts *regexp.Regexp
}

// compile makes the pattern ready: * stands for any characters, as in --connect-to.
func (h *hostPattern) compile() {
	h.hosts = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(h.Pattern), `\*`, ".*") + "$")
}

// shown is the entry as one line, of its headers the names only.
func (h *hostPattern) shown() string {
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

// readHosts takes the config file's hosts.
func (l *layers) readHosts(name string, node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: hosts: want host patterns, such as \"*.example.org\", each with its values", name, node.Line)
	}
	var errs []error
	seen := make(map[string]bool)
	for key, body := range pairs(node) {
		h := hostPattern{Pattern: strings.ToLower(key.Value)}
		at := fmt.Sprintf("hosts: %s", h.Pattern)
		switch {
		case seen[h.Pattern]:
			errs = append(errs, fmt.Errorf("%s:%d: %s: stands there twice", name, key.Line, at))
		case body.Kind != yaml.MappingNode:
			errs = append(errs, fmt.Errorf("%s:%d: %s: want delay, concurrency, budget, headers or robots", name, body.Line, at))
		default:
			for key, value := range pairs(body) {
				if err := h.set(key.Value, value); err != nil {
					errs = append(errs, fmt.Errorf("%s:%d: %s: %w", name, key.Line, at, err))
				}
			}
		}
		seen[h.Pattern] = true
		h.compile()
		l.hosts = append(l.hosts, h)
	}
	return errors.Join(errs...)
}

func (h *hostPattern) set(key string, node *yaml.Node) (err error) {
	switch key {
	case "delay":
		if h.Delay, err = time.ParseDuration(node.Value); err != nil || h.Delay <= 0 {
			return fmt.Errorf("delay is %q, want a duration of more than 0, such as 5s", node.Value)
		}
	case "concurrency":
		if node.Decode(&h.Concurrency) != nil || h.Concurrency < 1 || h.Concurrency > maxHostConcurrency {
			return fmt.Errorf("concurrency is %q, want 1 to %d", node.Value, maxHostConcurrency)
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
		return checkHeaders(h.Headers)
	case "robots":
		if h.Robots = node.Value; h.Robots != "obey" && h.Robots != "ignore" {
			return fmt.Errorf("robots is %q, want obey or ignore", h.Robots)
		}
	default:
		return fmt.Errorf("unknown key %q, want delay, concurrency, budget, headers or robots", key)
	}
	return nil
}

// matchHost returns what the config file says of a host key, or nil.
func (l *layers) matchHost(host string) *hostPattern {
	for i := range l.hosts {
		if l.hosts[i].hosts.MatchString(host) {
			return &l.hosts[i]
		}
	}
	return nil
}

// hostLimits returns the delay and the most URLs of a host key; 0: as of all hosts.
func (l *layers) hostLimits(host string) (delay time.Duration, most uint64) {
	if h := l.matchHost(host); h != nil {
		return h.Delay, h.Budget
	}
	return 0, 0
}

// hostRules returns what a worker does differently for one host key.
func (l *layers) hostRules(o *options) func(string) fetcher.HostRules {
	general := fetcher.HostRules{IgnoreRobots: o.robots == "ignore"}
	return func(host string) fetcher.HostRules {
		h := l.matchHost(host)
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
			policy := o.policy()
			policy.Delay = h.Delay
			if o.delay == 0 {
				policy.LatencyFactor = politeness.NoLatencyFactor
			}
			rules.Politeness = &policy
		}
		return rules
	}
}
