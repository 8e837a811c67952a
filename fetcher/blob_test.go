package fetcher

import (
	"bytes"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/robots"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// TestRobotsOf reads from a host's blob what a worker put there.
func TestRobotsOf(t *testing.T) {
	now := time.Now()
	h := &holding{host: politeness.New(politeness.Policy{}), origins: make(map[string]*robots.State)}
	for _, origin := range []string{"http://h.test", "https://h.test", "http://h.test:81"} {
		state := new(robots.State)
		state.Answered(now, 200, []byte("User-agent: *\nDisallow: /"+origin), "crawler", 0)
		h.origins[origin] = state
	}
	blob := h.appendBlob(nil)
	for origin := range h.origins {
		state, err := RobotsOf(blob, origin, now)
		if err != nil || state == nil {
			t.Fatalf("RobotsOf(%q) = %v, %v", origin, state, err)
		}
		if access, rule := state.Check(now, "/"+origin); access != robots.Disallow {
			t.Errorf("%s: %v by %q", origin, access, rule)
		}
	}
	if state, err := RobotsOf(blob, "http://other.test", now); state != nil || err != nil {
		t.Errorf("of an unknown origin: %v, %v", state, err)
	}
	if state, err := RobotsOf(nil, "http://h.test", now); state != nil || err != nil {
		t.Errorf("of no blob: %v, %v", state, err)
	}
	if _, err := RobotsOf(blob[:len(blob)-1], "none", now); err == nil {
		t.Error("a blob that was cut is taken for a whole one")
	}
	if _, err := RobotsOf(bytes.Repeat([]byte{0xff}, 40), "http://h.test", now); err == nil {
		t.Error("nonsense is taken for a blob")
	}
}
