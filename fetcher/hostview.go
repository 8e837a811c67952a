package fetcher

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// HostView is what the workers have learnt about a host, for people.
type HostView struct {
	Delay       time.Duration // between the starts of two requests, under the present policy
	DelayReason string        // see politeness.Host.DelayReason
	Backoff     string        // see politeness.Host.BackoffReason
	Blocked     bool          // by a wall
	Cause       string        // why it does not answer, or which wall; empty if it answers
	Robots      string        // the state of its robots.txt; empty if it was not requested yet
	Traps       []string      // see TrapsOf
	SameText    uint64        // pages that show the same text, if nearly all of its pages do; otherwise 0
	NoRobots    bool          // the robots.txt of an origin could not be fetched and is not known
	LastError   *LastError    // of an item of the host, without Host; nil means none, or that it is not known any more
}

// ViewHost reads the blob of a host, whose key is the argument host. userAgent is that of the worker's client. The
// argument blob may be nil. After an error, the view has what could be read.
func ViewHost(blob []byte, host, userAgent string, p *policy.Policy, now time.Time) (HostView, error) {
	rules := p.Host(host)
	h := &holding{
		rules: &hostRules{p, rules, ProductToken(rules.Header, userAgent)},
		host:  politeness.New(rules.Politeness), origins: make(map[string]*robots.State), tdm: make(map[string]*tdmState),
	}
	err := h.readBlob(blob, now)
	v := HostView{
		Delay: h.host.Delay(), DelayReason: h.host.DelayReason(), Backoff: h.host.BackoffReason(),
		Blocked: h.host.Blocked(), Cause: h.cause, LastError: h.lastError, Traps: h.known.Traps(), SameText: h.same.count(),
	}
	if rules.IgnoreRobots {
		v.Robots = "ignored"
		return v, err
	}
	var failed []string
	known := 0
	for origin, state := range h.origins {
		switch {
		case state.Rules() != nil:
			known++
		case state.Failures() > 0:
			failed = append(failed, fmt.Sprintf("%s: %s, next try in %s", origin, robotsFault(state.Failures(), state.Cause()), human.Span(state.AskIn(now))))
		}
	}
	slices.Sort(failed)
	v.NoRobots = len(failed) > 0
	if known > 0 {
		failed = append([]string{"fetched"}, failed...)
	}
	v.Robots = strings.Join(failed, "; ")
	return v, err
}
