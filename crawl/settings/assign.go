package settings

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/frontier/revisit"
	"github.com/bloomfrontier/crawler/internal/human"
)

// hostsName is the name of the row of Settings.Hosts.
const hostsName = "hosts"

// Assign sets settings of the policy (see Live) to new values. A text is NAME=VALUE, NAME+=VALUE for one more element of
// a list, NAME-=VALUE for one less, or hosts:PATTERN=VALUE for what differs for the hosts that match a pattern (see ParseHost). Several
// texts with the name of a list set it to all their values. Each error is an *Error, or says that a text is
// none of these. s must not share the maps of its header with another Settings.
func (s *Settings) Assign(texts []string) (errs []error) {
	lists := make(map[string]Value) // those that were set here: another text appends
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		name, appends := strings.CutSuffix(name, "+")
		name, removes := strings.CutSuffix(name, "-")
		pattern, ofHost := strings.CutPrefix(name, hostsName+":")
		switch {
		case ofHost:
			name = hostsName
		case name == hostsName && value == "":
			value = "[]"
		}
		row := Find(name)
		switch {
		case !found || name == "":
			errs = append(errs, fmt.Errorf("%q is no change, want NAME=VALUE", text))
			continue
		case row == nil:
			errs = append(errs, &Error{name, errors.New("there is no such setting")})
			continue
		case row.Who == Created:
			errs = append(errs, &Error{name, errors.New("it is part of the identity of the crawl, and fixed when the crawl is created")})
			continue
		case row.Who == Run:
			errs = append(errs, &Error{name, errors.New("each run of each worker sets it")})
			continue
		}
		field := lists[name]
		if field == nil {
			field = row.Value(s)
			lists[name] = field
		}
		var err error
		list, isList := field.(interface {
			Append(text string) error
			Replace(texts []string) error
			GetSlice() []string
		})
		switch {
		case ofHost:
			err = s.assignHost(strings.ToLower(pattern), value)
		case (appends || removes) && !isList:
			err = errors.New("it is no list, want NAME=VALUE")
		case appends && slices.Contains(list.GetSlice(), value): // a repeat
		case appends:
			err = list.Append(value)
		case removes:
			err = list.Replace(slices.DeleteFunc(slices.Clone(list.GetSlice()), func(text string) bool { return text == value }))
		default:
			err = field.Set(value)
		}
		if err != nil {
			errs = append(errs, &Error{name, fmt.Errorf("%q: %w", value, err)})
		}
	}
	return errs
}

// AssignNew is like Assign for a crawl that does not exist yet. It sets all settings, not only those of the policy. Those
// that are not of the policy have only the form NAME=VALUE.
func (s *Settings) AssignNew(texts []string) (errs []error) {
	var live, names []string
	values := make(map[string][]string)
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "=")
		if row := Find(name); row == nil || row.Who == Live {
			live = append(live, text)
			continue
		}
		if values[name] == nil {
			names = append(names, name)
		}
		values[name] = append(values[name], value)
	}
	for _, name := range names {
		field, given := Find(name).Value(s), values[name]
		list, isList := field.(interface{ Replace(texts []string) error })
		var err error
		switch {
		case isList:
			err = list.Replace(given)
		case len(given) > 1:
			err = errors.New("it is given more than once")
		default:
			err = field.Set(given[0])
		}
		if err != nil {
			errs = append(errs, &Error{name, err})
		}
	}
	return append(errs, s.Assign(live)...)
}

// assignHost sets what differs for the hosts that match a pattern.
func (s *Settings) assignHost(pattern, text string) error {
	hosts := slices.Clone(s.Hosts)
	at := slices.IndexFunc(hosts, func(h Host) bool { return h.Pattern == pattern })
	if text == "" {
		if at < 0 {
			return fmt.Errorf("there are no settings of hosts with the pattern %q", pattern)
		}
		s.Hosts = slices.Delete(hosts, at, at+1)
		return nil
	}
	h, err := ParseHost(pattern, text)
	switch {
	case err != nil:
		return err
	case at < 0:
		hosts = append(hosts, h)
	default:
		h.Headers = hosts[at].Headers
		hosts[at] = h
	}
	s.Hosts = hosts
	return nil
}

// String returns the settings of hosts as "crawler config" shows them. It leaves out the values of headers.
func (h *Host) String() string {
	line := []string{h.Pattern}
	add := func(is bool, format string, value any) {
		if is {
			line = append(line, fmt.Sprintf(format, value))
		}
	}
	add(h.Delay > 0, "delay %v", h.Delay)
	add(h.Concurrency > 0, "concurrency %d", h.Concurrency)
	if h.DomainRate != nil {
		add(true, "domain-rate %v", *h.DomainRate)
	}
	add(h.Budget > 0, "budget %d", h.Budget)
	add(h.Robots != "", "robots %s", h.Robots)
	add(h.Recrawl != "", "recrawl %s", h.Recrawl)
	add(h.Weight > 0, "weight %v", h.Weight)
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		line = append(line, "header "+name)
	}
	return strings.Join(line, ", ")
}

// Bounds of Host.Weight.
const (
	MinWeight = 0.01
	MaxWeight = 1000.0
)

// ParseHost parses the settings of hosts as in "delay 5s, concurrency 2, budget 1000, robots ignore". Headers
// are not among them, because they are not stored.
func ParseHost(pattern, text string) (h Host, err error) {
	h.Pattern = pattern
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), " ")
		if err := h.Set(key, strings.TrimSpace(value)); err != nil {
			return h, err
		}
	}
	return h, nil
}

// Set sets one value of h, other than headers.
func (h *Host) Set(key, text string) (err error) {
	switch key {
	case "delay":
		if h.Delay, err = time.ParseDuration(text); err != nil || h.Delay <= 0 {
			return fmt.Errorf("delay is %q, want a duration of more than 0, such as 5s", text)
		}
	case "concurrency":
		if h.Concurrency, err = strconv.Atoi(text); err != nil || h.Concurrency < 1 || h.Concurrency > MaxHostConcurrency {
			return fmt.Errorf("concurrency is %q, want 1 to %d", text, MaxHostConcurrency)
		}
	case "domain-rate":
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || !(rate >= 0 && rate <= 1e6) {
			return fmt.Errorf("domain-rate is %q, want requests per second, or 0 for no limit", text)
		}
		h.DomainRate = &rate
	case "budget":
		var n human.Count
		if err := n.Set(text); err != nil {
			return fmt.Errorf("budget is %q, %w", text, err)
		}
		h.Budget = uint64(n)
	case "robots":
		if h.Robots = text; h.Robots != "obey" && h.Robots != "ignore" {
			return fmt.Errorf("robots is %q, want obey or ignore", h.Robots)
		}
	case "recrawl":
		if _, err := revisit.ParseAim(text); err != nil {
			return fmt.Errorf("recrawl is %q, %w", text, err)
		}
		h.Recrawl = text
	case "weight":
		if h.Weight, err = strconv.ParseFloat(text, 64); err != nil || !(h.Weight >= MinWeight && h.Weight <= MaxWeight) {
			return fmt.Errorf("weight is %q, want %v to %v, where other pages have 1", text, MinWeight, MaxWeight)
		}
	default:
		return fmt.Errorf("unknown key %q, want delay, concurrency, domain-rate, budget, robots, recrawl, weight or headers", key)
	}
	return nil
}

// Assignment returns the texts with which Assign sets a setting to a stored value.
func (r *Row) Assignment(stored string) (texts []string) {
	value := r.Value(new(Settings))
	list, isList := value.(interface{ GetSlice() []string })
	if !isList || value.Adopt(stored) != nil {
		return []string{r.Name + "=" + stored}
	}
	for _, text := range list.GetSlice() {
		texts = append(texts, r.Name+"="+text)
	}
	if texts == nil {
		texts = []string{r.Name + "="}
	}
	return texts
}

// storedDelay matches the delay of a host in the stored form of the setting hosts.
var storedDelay = regexp.MustCompile(`"delay":([0-9]+)`)

// WithDelays returns the stored form of the setting hosts with readable delays.
func WithDelays(hosts string) string {
	return storedDelay.ReplaceAllStringFunc(hosts, func(delay string) string {
		ns, err := strconv.ParseInt(storedDelay.FindStringSubmatch(delay)[1], 10, 64)
		if err != nil {
			return delay
		}
		return fmt.Sprintf(`"delay":"%v"`, time.Duration(ns))
	})
}
