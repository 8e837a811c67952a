package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Target selects URLs by all of its parts that are set. At least one is set.
type Target struct {
	text  string
	hosts []string // of a pattern of host keys: the texts between the *; nil for any host
	class string   // empty for any class
	depth int      // the least depth
	url   *regexp.Regexp
}

// ParseTarget parses a text such as "host=*.example.org class=bulk depth=5.. match=/calendar/". Its parts are separated
// by one space, in any order, but what follows "match=" belongs to the regular expression. A host is a pattern
// of host keys, in which * stands for any characters; depth=N.. selects URLs that are N or more links away from a seed.
func ParseTarget(text string) (Target, error) {
	t := Target{text: text}
	for rest := text; rest != ""; {
		name, value, _ := strings.Cut(rest, "=")
		rest = ""
		if name != "match" {
			value, rest, _ = strings.Cut(value, " ")
		}
		var err error
		switch name {
		case "host":
			t.hosts = strings.Split(strings.ToLower(value), "*")
		case "class":
			t.class = value
		case "depth":
			from, open := strings.CutSuffix(value, "..")
			if t.depth, err = strconv.Atoi(from); err != nil || !open || t.depth < 1 || t.depth > NoLimit {
				err = fmt.Errorf("depth is %q, want N.. with an N from 1 to %d", value, NoLimit)
			}
		case "match":
			t.url, err = regexp.Compile(value)
		default:
			err = fmt.Errorf("want host=PATTERN, class=CLASS, depth=N.. or match=RE, got %q", name)
		}
		switch {
		case err != nil:
		case value == "":
			err = fmt.Errorf("%s is empty", name)
		case name != "match" && strings.ContainsFunc(value, unicode.IsControl):
			err = fmt.Errorf("%s has a control character", name)
		}
		if err != nil {
			return Target{}, err
		}
	}
	if text == "" {
		return Target{}, errors.New("it selects nothing, want host=PATTERN, class=CLASS, depth=N.. or match=RE")
	}
	return t, nil
}

// String returns the text from which the Target was parsed.
func (t *Target) String() string { return t.text }

// Host returns the pattern of host keys; empty means any host.
func (t *Target) Host() string { return strings.Join(t.hosts, "*") }

// Class returns the name of the class that the Target selects; empty means any class.
func (t *Target) Class() string { return t.class }

// MinDepth returns the least depth of URLs that the Target selects.
func (t *Target) MinDepth() int { return t.depth }

// WholeHosts reports whether the Target selects all URLs of the hosts that it selects.
func (t *Target) WholeHosts() bool { return t.class == "" && t.depth == 0 && t.url == nil }

// SelectsHost reports whether URLs of a host can be selected.
func (t *Target) SelectsHost(key string) bool {
	key, _ = frontier.Checked(key)
	if len(t.hosts) == 1 {
		return t.hosts[0] == key
	}
	return t.hosts == nil || (&glob{parts: t.hosts}).matches(key)
}

// Selects reports whether the Target selects a URL. The argument class is the name of its class.
func (t *Target) Selects(o *frontier.Offer, class string) bool {
	if !t.SelectsHost(o.Host) || int(o.Depth) < t.depth || t.class != "" && t.class != class {
		return false
	}
	url, _ := frontier.Checked(o.URL)
	return t.url == nil || t.url.MatchString(url)
}

// Refusal returns which rule of Block or Drop selects a URL, in words, and the reason of the refusal; "" if none does. The
// argument item is the fingerprint of the URL; zero means that it is not known.
func (p *Policy) Refusal(o *frontier.Offer, item bloomstore.Fingerprint, className func(frontier.Class) string) (rule string, reason frontier.Reason) {
	if blocked := p.Block.Find(o.Host, o.URL, item); blocked != nil {
		return "blocks it: " + blocked.Rule(), frontier.ReasonBlockRule
	}
	if len(p.Drop) == 0 {
		return "", ""
	}
	class := className(o.Class)
	for i := range p.Drop {
		if p.Drop[i].Selects(o, class) {
			return "drops it: " + p.Drop[i].String(), frontier.ReasonDropRule
		}
	}
	return "", ""
}

// HostPaused reports whether all URLs of a host are paused.
func (p *Policy) HostPaused(key string) bool {
	return slices.ContainsFunc(p.Pause, func(t Target) bool { return t.WholeHosts() && t.SelectsHost(key) })
}

// Paused reports whether a URL is paused, alone or with its host.
func (p *Policy) Paused(host, url string) bool {
	return slices.ContainsFunc(p.Pause, func(t Target) bool { return t.Selects(&frontier.Offer{Host: host, URL: url}, "") })
}
