package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// layers are a crawl's flags with where each value came from. Later ones win:
// defaults, the crawl's own settings, config file, CRAWLER_* environment, flags.
type layers struct {
	flags *pflag.FlagSet
	from  map[string]string // flag name -> where its value came from; absent: default
	hosts []hostPattern
	// hostsGiven: the config file has a hosts key.
	hostsGiven bool
}

// hostPattern is an entry of the config file's hosts: what differs for host
// keys that match. The first that matches counts.
type hostPattern struct {
	Pattern     string            `json:"pattern"`
	Delay       time.Duration     `json:"delay,omitempty"`
	Concurrency int               `json:"concurrency,omitempty"`
	Budget      uint64            `json:"budget,omitempty"` // as --max-per-host
	Headers     map[string]string `json:"headers,omitempty"`
	Robots      string            `json:"robots,omitempty"`
}

const envPrefix = "CRAWLER_"

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// envIgnored are variables of that prefix that are not flags.
var envIgnored = []string{"CRAWLER_BIN", "CRAWLER_TEST_SERVERS"}

// readLayers takes flags as parsed and fills in what file and environment say.
// The error lists every fault.
func readLayers(flags *pflag.FlagSet, configFile string, environ []string) (*layers, error) {
	l := &layers{flags: flags, from: make(map[string]string)}
	flags.Visit(func(f *pflag.Flag) { l.from[f.Name] = "flag" })
	var errs []error
	names := make(map[string]string)
	flags.VisitAll(func(f *pflag.Flag) { names[envName(f.Name)] = f.Name })
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(envIgnored, name) {
			continue
		}
		flag, known := names[name]
		if !known {
			errs = append(errs, fmt.Errorf("environment: %s is no flag of this command", name))
			continue
		}
		errs = append(errs, l.set(flag, []string{value}, name))
	}
	if configFile != "" {
		errs = append(errs, l.readFile(configFile))
	}
	return l, errors.Join(errs...)
}

// set gives a flag a value unless a stronger layer has.
func (l *layers) set(name string, values []string, source string) error {
	if _, taken := l.from[name]; taken {
		return nil
	}
	flag := l.flags.Lookup(name)
	if err := assign(flag, values); err != nil {
		return fmt.Errorf("%s: %s: %w", source, name, err)
	}
	l.from[name] = source
	return nil
}

func assign(flag *pflag.Flag, values []string) error {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.Replace(values)
	}
	if len(values) != 1 {
		return fmt.Errorf("has %d values, want one", len(values))
	}
	return flag.Value.Set(values[0])
}

// readFile takes the config file: a mapping of flag names, and hosts.
func (l *layers) readFile(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("config %s: %w", name, err)
	}
	if len(doc.Content) == 0 {
		return nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return fmt.Errorf("config %s:%d: want flag names with values, such as \"delay: 2s\"", name, top.Line)
	}
	var errs []error
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		source := fmt.Sprintf("%s:%d", name, key.Line)
		if key.Value == "hosts" {
			l.hostsGiven = true
			errs = append(errs, l.readHosts(name, value))
			continue
		}
		if l.flags.Lookup(key.Value) == nil || key.Value == "config" {
			errs = append(errs, fmt.Errorf("%s: unknown key %q", source, key.Value))
			continue
		}
		values, err := scalars(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", source, key.Value, err))
			continue
		}
		errs = append(errs, l.set(key.Value, values, source))
	}
	return errors.Join(errs...)
}

// scalars returns a node's value, or the values of a list.
func scalars(node *yaml.Node) ([]string, error) {
	switch node.Kind {
	case yaml.ScalarNode:
		return []string{node.Value}, nil
	case yaml.SequenceNode:
		values := []string{}
		for _, item := range node.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, errors.New("want plain values in the list")
			}
			values = append(values, item.Value)
		}
		return values, nil
	}
	return nil, errors.New("want a value or a list of values")
}

func (l *layers) readHosts(name string, node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: hosts: want host patterns, such as \"*.example.org\", each with its values", name, node.Line)
	}
	var errs []error
	for i := 0; i+1 < len(node.Content); i += 2 {
		pattern, body := node.Content[i], node.Content[i+1]
		h := hostPattern{Pattern: strings.ToLower(pattern.Value)}
		if body.Kind != yaml.MappingNode {
			errs = append(errs, fmt.Errorf("%s:%d: hosts: %s: want delay, concurrency, budget, headers or robots", name, body.Line, h.Pattern))
			continue
		}
		for j := 0; j+1 < len(body.Content); j += 2 {
			key, value := body.Content[j], body.Content[j+1]
			if err := h.set(key.Value, value); err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: hosts: %s: %w", name, key.Line, h.Pattern, err))
			}
		}
		l.hosts = append(l.hosts, h)
	}
	return errors.Join(errs...)
}

func (h *hostPattern) set(key string, node *yaml.Node) (err error) {
	switch key {
	case "delay":
		if h.Delay, err = time.ParseDuration(node.Value); err == nil && h.Delay <= 0 {
			err = fmt.Errorf("delay is %s, want more than 0", node.Value)
		}
	case "concurrency":
		if err = node.Decode(&h.Concurrency); err == nil && h.Concurrency < 1 {
			err = fmt.Errorf("concurrency is %d, want 1 or more", h.Concurrency)
		}
	case "budget":
		err = node.Decode(&h.Budget)
	case "headers":
		err = node.Decode(&h.Headers)
	case "robots":
		if h.Robots = node.Value; h.Robots != "obey" && h.Robots != "ignore" {
			err = fmt.Errorf("robots is %q, want obey or ignore", h.Robots)
		}
	default:
		err = fmt.Errorf("unknown key %q", key)
	}
	return err
}

// adopt takes the settings of an existing crawl for whatever nobody gave.
func (l *layers) adopt(stored frontier.Settings) error {
	var errs []error
	for _, name := range fixedFlags {
		text, ok := stored[name]
		if !ok {
			continue
		}
		flag := l.flags.Lookup(name)
		values := []string{text}
		if _, list := flag.Value.(pflag.SliceValue); list {
			if err := json.Unmarshal([]byte(text), &values); err != nil {
				errs = append(errs, fmt.Errorf("crawl.json: %s: %w", name, err))
				continue
			}
		}
		errs = append(errs, l.set(name, values, "crawl.json"))
	}
	if text, ok := stored["hosts"]; ok && !l.hostsGiven {
		errs = append(errs, json.Unmarshal([]byte(text), &l.hosts))
	}
	return errors.Join(errs...)
}

// settings returns what is fixed when a crawl is created.
func (l *layers) settings(form string) frontier.Settings {
	s := frontier.Settings{"canonical-form": form}
	for _, name := range fixedFlags {
		flag := l.flags.Lookup(name)
		s[name] = flag.Value.String()
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			text, _ := json.Marshal(append([]string{}, list.GetSlice()...))
			s[name] = string(text)
		}
	}
	text, _ := json.Marshal(append([]hostPattern{}, l.hosts...))
	s["hosts"] = string(text)
	return s
}

// checked are options that were found good, with what they were parsed into.
type checked struct {
	include, exclude []*regexp.Regexp
	scope            canon.ScopeMode
	connectTo        []get.Rule
	headers          map[string][]string
	canon            *canon.Canonicalizer
}

// check returns every fault of the options at once.
func (o *options) check() (c checked, err error) {
	var errs []error
	fault := func(bad bool, flag string, value any, want string) {
		if bad {
			errs = append(errs, fmt.Errorf("--%s is %v, want %s", flag, value, want))
		}
	}
	oneOf := func(flag, value string, names ...string) {
		fault(!slices.Contains(names, value), flag, fmt.Sprintf("%q", value), "one of "+strings.Join(names, ", "))
	}
	oneOf("robots", o.robots, "obey", "ignore")
	oneOf("host-key", o.hostKey, "host", "domain")
	oneOf("out", o.out, "", "-")
	oneOf("log-level", o.logLevel, "debug", "info", "warn", "error")
	fault(o.maxDepth < unlimited || o.maxDepth > 65535, "max-depth", o.maxDepth, "-1 to 65535")
	for flag, d := range map[string]time.Duration{
		"delay": o.delay, "max-crawl-delay": o.maxCrawlDelay, "max-time": o.maxTime, "grace": o.grace,
	} {
		fault(d < 0, flag, d, "0 or more")
	}
	fault(o.timeout < time.Millisecond, "timeout", o.timeout, "1ms or more")
	fault(o.backoff <= 0, "backoff", o.backoff, "more than 0")
	fault(o.backoffMax < o.backoff, "backoff-max", o.backoffMax, "at least --backoff")
	fault(o.latencyFactor < 0, "latency-factor", o.latencyFactor, "0 or more")
	fault(o.hostConcurrent < 1 || o.hostConcurrent > 1024, "host-concurrency", o.hostConcurrent, "1 to 1024")
	fault(o.concurrency < 1 || o.concurrency > 100_000, "concurrency", o.concurrency, "1 to 100000")
	fault(o.rate < 0, "rate", o.rate, "0 or more")
	fault(o.retries < 0 || o.retries > 100, "retries", o.retries, "0 to 100")
	fault(o.deadAfter < 0, "dead-after", o.deadAfter, "0 or more")
	if c.scope, err = canon.ParseScopeMode(o.scope); err != nil {
		oneOf("scope", o.scope, "host", "subdomains", "domain", "any")
	}
	compile := func(flag string, list []string) (all []*regexp.Regexp) {
		for _, text := range list {
			re, err := regexp.Compile(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
				continue
			}
			all = append(all, re)
		}
		return all
	}
	c.include, c.exclude = compile("include", o.include), compile("exclude", o.exclude)
	for _, text := range o.connectTo {
		rule, err := get.ParseConnectTo(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--connect-to: %w", err))
		}
		c.connectTo = append(c.connectTo, rule)
	}
	c.headers = make(map[string][]string)
	for _, text := range o.headers {
		name, value, ok := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			errs = append(errs, fmt.Errorf("--header is %q, want NAME: VALUE", text))
			continue
		}
		c.headers[name] = append(c.headers[name], strings.TrimSpace(value))
	}
	if c.canon, err = canon.New(o.canonOptions()); err != nil {
		errs = append(errs, err)
	}
	return c, errors.Join(errs...)
}
