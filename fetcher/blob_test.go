package fetcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// TestRobotsOf reads the robots.txt that a worker stored in a host's blob.
func TestRobotsOf(t *testing.T) {
	now := time.Now()
	h := &holding{host: politeness.New(politeness.Default()), origins: make(map[string]*robots.State)}
	for _, origin := range []string{"http://h.test", "https://h.test", "http://h.test:81"} {
		state := new(robots.State)
		state.Answered(now, 200, []byte("User-agent: *\nDisallow: /"+origin), "crawler", 0)
		h.origins[origin] = state
	}
	blob := h.appendBlob(nil)
	for origin := range h.origins {
		state, err := RobotsOf(blob, origin, "crawler", now)
		if err != nil || state == nil {
			t.Fatalf("RobotsOf(%q) = %v, %v", origin, state, err)
		}
		if access, rule := state.Check(now, "/"+origin); access != robots.Disallow {
			t.Errorf("%s: Check = %v by the rule %q, want Disallow", origin, access, rule)
		}
	}
	if state, err := RobotsOf(blob, "http://other.test", "crawler", now); state != nil || err != nil {
		t.Errorf("RobotsOf an unknown origin = %v, %v, want nil, nil", state, err)
	}
	if state, err := RobotsOf(nil, "http://h.test", "crawler", now); state != nil || err != nil {
		t.Errorf("RobotsOf without a blob = %v, %v, want nil, nil", state, err)
	}
	if _, err := RobotsOf(blob[:len(blob)-1], "none", "crawler", now); err == nil {
		t.Error("RobotsOf a blob without its last byte returned no error")
	}
	if _, err := RobotsOf(bytes.Repeat([]byte{0xff}, 40), "http://h.test", "crawler", now); err == nil {
		t.Error("RobotsOf bytes that are no blob returned no error")
	}
}

// TestBlobOfAnotherAgent: a lease does not use the rules that robots.txt had for another agent.
func TestBlobOfAnotherAgent(t *testing.T) {
	const origin = "http://h.test"
	now := time.Now()
	h := &holding{host: politeness.New(politeness.Default()), origins: map[string]*robots.State{origin: new(robots.State)}}
	h.origins[origin].Answered(now, 200, []byte("User-agent: guest\nDisallow: /\n"), "crawler", 0)
	blob := h.appendBlob(nil)
	for token, want := range map[string]robots.Access{"crawler": robots.Allow, "guest": robots.Ask} {
		back := &holding{host: politeness.New(politeness.Default()), origins: make(map[string]*robots.State), rules: &hostRules{token: token}}
		if err := back.readBlob(blob, now); err != nil {
			t.Fatal(err)
		}
		if got, _ := back.origin(origin).Check(now, "/page"); got != want {
			t.Errorf("agent %s: Check = %v, want %v", token, got, want)
		}
	}
}

// TestBlobKeepsCauses: the blob tells the next worker why a host and its
// origins fail. It has room for the failures of many origins.
func TestBlobKeepsCauses(t *testing.T) {
	now := time.Now()
	h := &holding{host: politeness.New(politeness.Default()), origins: make(map[string]*robots.State), cause: "it is down"}
	for port := range 250 {
		state := new(robots.State)
		state.Failed(now, strings.Repeat("why", 100))
		h.origins[fmt.Sprintf("http://host.test:%d", port)] = state
	}
	blob := h.appendBlob(nil)
	if cause, err := CauseOf(blob); cause != h.cause || err != nil {
		t.Errorf("CauseOf = %q, %v, want %q", cause, err, h.cause)
	}
	back := &holding{host: politeness.New(politeness.Default()), origins: make(map[string]*robots.State), rules: new(hostRules)}
	if err := back.readBlob(blob, now); err != nil {
		t.Fatal(err)
	}
	causes := 0
	for _, state := range back.origins {
		if state.Failures() != 1 {
			t.Errorf("an origin has %d failures, want 1", state.Failures())
		}
		if state.Cause() != "" {
			causes++
		}
	}
	if len(back.origins) != len(h.origins) || causes != maxOrigins || back.cause != h.cause {
		t.Errorf("read back: %d origins, %d of them with a cause, host's cause %q; want %d, %d, %q",
			len(back.origins), causes, back.cause, len(h.origins), maxOrigins, h.cause)
	}
}

// TestCauseOf: the cause of a failed connection is the text of its error without the prefix
// "connect: ". The causes of other errors are their whole text.
func TestCauseOf(t *testing.T) {
	dial := errors.New("dial tcp 127.0.0.1:7: connect: connection refused")
	for want, err := range map[string]error{
		dial.Error():              &get.Error{Op: get.OpConnect, Err: dial},
		"request: unexpected EOF": &get.Error{Op: get.OpRequest, Err: io.ErrUnexpectedEOF},
		"wrapped: connect: close": fmt.Errorf("wrapped: %w", errors.New("connect: close")),
	} {
		if got := causeOf(err); got != want {
			t.Errorf("causeOf(%v) = %q, want %q", err, got, want)
		}
	}
}
