package robots

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

const file = "User-agent: *\nDisallow: /private\n"

func TestFromStatus(t *testing.T) {
	for status, want := range map[int]Meaning{
		0: Unreachable, 100: Unreachable, 200: Found, 204: Found, 301: Follow, 308: Follow,
		400: Missing, 401: Missing, 403: Missing, 404: Missing, 410: Missing, 451: Missing,
		429: Unreachable, 500: Unreachable, 503: Unreachable, 599: Unreachable, 999: Unreachable,
	} {
		if got := FromStatus(status); got != want {
			t.Errorf("FromStatus(%d) = %d, want %d", status, got, want)
		}
	}
}

// TestStateOverTime checks the state of one origin through everything that can happen to it.
func TestStateOverTime(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var s State
	expect := func(path string, want Access) {
		t.Helper()
		if got, _ := s.Check(now, path); got != want {
			t.Errorf("Check(%q) = %d, want %d", path, got, want)
		}
	}
	expect("/", Ask) // nothing is known yet

	for i, wait := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600} {
		wait *= time.Second
		if i%2 == 0 {
			s.Answered(now, 500, nil, "bot", 0)
		} else {
			s.Failed(now, "connection refused")
		}
		expect("/", Wait)
		if got := s.AskIn(now); got != wait {
			t.Errorf("after %d failures: AskIn = %v, want %v", i+1, got, wait)
		}
		now = now.Add(wait)
		expect("/", Ask)
	}

	s.Answered(now, 200, []byte(file), "bot", 0)
	expect("/", Allow)
	expect("/private", Disallow)
	now = now.Add(Lifetime - time.Nanosecond)
	expect("/", Allow)
	now = now.Add(time.Nanosecond)
	expect("/", Ask) // the answer is a day old, so it must be renewed

	s.Answered(now, 429, nil, "bot", 2*time.Hour)
	expect("/", Allow) // the last good copy
	expect("/private", Disallow)
	if got := s.AskIn(now); got != 2*time.Hour {
		t.Errorf("AskIn = %v, want the 2h of Retry-After", got)
	}
	now = now.Add(2 * time.Hour)
	s.Answered(now, 503, nil, "bot", 1000*time.Hour)
	if got := s.AskIn(now); got != Lifetime {
		t.Errorf("AskIn = %v, want the maximum, %v", got, Lifetime)
	}
	now = now.Add(Lifetime)

	s.Answered(now, 404, []byte(file), "bot", 0)
	expect("/private", Allow)
	now = now.Add(Lifetime)
	s.Answered(now, 302, []byte(file), "bot", 0) // this is the sixth redirect
	expect("/private", Allow)
	if s.Failures() != 0 {
		t.Errorf("%d failures after an answer, want 0", s.Failures())
	}
}

// TestStatusRulesOverTime simulates some days. Each day, an origin answers requests for
// robots.txt in another way. The test checks the rules of RFC 9309, 2.3.1: An answer is
// valid for a day. After that it stays valid until there is a new answer. Nothing is
// allowed before the first answer.
func TestStatusRulesOverTime(t *testing.T) {
	const none = -1 // no connection
	days := []struct {
		status       int // the answer for 24 hours
		open, closed Access
		least, most  int // number of requests
	}{
		{503, Wait, Wait, 24, 40}, // the pauses grow up to an hour
		{none, Wait, Wait, 23, 25},
		{200, Allow, Disallow, 1, 2},
		{429, Allow, Disallow, 24, 40}, // the last good copy
		{none, Allow, Disallow, 23, 25},
		{410, Allow, Allow, 1, 2},
		{500, Allow, Allow, 24, 40}, // the last answer said that there is no robots.txt
		{200, Allow, Disallow, 1, 2},
		{302, Allow, Allow, 1, 2}, // one redirect too many
	}
	synctest.Test(t, func(t *testing.T) {
		var s State
		for day, d := range days {
			end := time.Now().Add(Lifetime)
			requests := 0
			for time.Now().Before(end) {
				if access, _ := s.Check(time.Now(), "/"); access == Ask {
					requests++
					if d.status == none {
						s.Failed(time.Now(), "connection refused")
					} else {
						s.Answered(time.Now(), d.status, []byte(file), "bot", 0)
					}
				}
				open, _ := s.Check(time.Now(), "/")
				closed, _ := s.Check(time.Now(), "/private")
				// The answer of the day before may still be valid in the first hour.
				if begun := time.Until(end) < Lifetime-time.Hour; begun && (open != d.open || closed != d.closed) {
					t.Fatalf("day %d, status %d, at %v: access %d to / and %d to /private, want %d and %d",
						day, d.status, time.Now(), open, closed, d.open, d.closed)
				}
				time.Sleep(min(s.AskIn(time.Now()), time.Minute))
			}
			if requests < d.least || requests > d.most {
				t.Errorf("day %d, status %d: %d requests, want %d to %d", day, d.status, requests, d.least, d.most)
			}
		}
	})
}

func TestStateRoundTrip(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	good, failing, kept := new(State), new(State), new(State)
	good.Answered(now, 200, []byte(file), "bot", 0)
	failing.Failed(now, "lookup a.test: no such host")
	kept.Answered(now.Add(-Lifetime), 200, []byte(file), "bot", 0)
	kept.Failed(now, "x"+strings.Repeat("é", maxCause)) // longer than the stored part, and cut within a letter
	if got := kept.Cause(); !utf8.ValidString(got) || len(got) < maxCause-1 || len(got) > maxCause {
		t.Errorf("a long cause is cut to %d bytes, %q, want nearly maxCause bytes of UTF-8", len(got), got)
	}
	for name, s := range map[string]*State{"zero": new(State), "good": good, "failing": failing, "kept": kept} {
		b, err := s.AppendBinary([]byte("x"))
		if err != nil || b[0] != 'x' {
			t.Fatalf("%s: AppendBinary: %q, %v", name, b, err)
		}
		var back State
		if err := back.Restore(b[1:], "bot", now); err != nil {
			t.Fatalf("%s: Restore: %v", name, err)
		}
		for _, path := range []string{"/", "/private"} {
			for _, at := range []time.Time{now, now.Add(time.Minute), now.Add(Lifetime)} {
				want, _ := s.Check(at, path)
				if got, _ := back.Check(at, path); got != want {
					t.Errorf("%s: Check(%v, %q) = %d after the round trip, %d before", name, at, path, got, want)
				}
			}
		}
		if back.Failures() != s.Failures() || back.Cause() != s.Cause() {
			t.Errorf("%s: after the round trip %d failures, cause %q, want %d, %q",
				name, back.Failures(), back.Cause(), s.Failures(), s.Cause())
		}
	}
	b, _ := good.AppendBinary(nil)
	var early State
	if err := early.Restore(b, "bot", now.Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got, _ := early.Check(now.Add(-48*time.Hour), "/"); got != Ask {
		t.Errorf("after the clock was set back by two days: Check = %d, want Ask", got)
	}
}

// TestRulesOfAnotherCrawler: rules are used only by the crawler that they were parsed for. A
// missing robots.txt, and failures, count for every crawler.
func TestRulesOfAnotherCrawler(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	const named = "User-agent: archive\nDisallow: /\nUser-agent: *\nDisallow:\n"
	found, missing, failing := new(State), new(State), new(State)
	found.Answered(now, 200, []byte(named), "crawler", 0)
	missing.Answered(now, 404, nil, "crawler", 0)
	failing.Failed(now, "refused")
	for _, test := range []struct {
		name  string
		state *State
		token string
		want  Access
	}{
		{"the same token", found, "crawler", Allow},
		{"the same token in capitals", found, "Crawler", Allow},
		{"a token that the file names", found, "archive", Ask},
		{"a longer token", found, "crawler2", Ask},
		{"no token", found, "", Ask},
		{"a missing file", missing, "archive", Allow},
		{"a failure", failing, "archive", Wait},
	} {
		b, err := test.state.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		back := new(State)
		if err := back.Restore(b, test.token, now); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got, _ := back.Check(now, "/page"); got != test.want {
			t.Errorf("%s: Check = %d, want %d", test.name, got, test.want)
		}
	}

	b, _ := found.AppendBinary(nil)
	at := bytes.Index(b, []byte("\x07crawler")) - 1
	if b[at] != parserVersion {
		t.Fatalf("byte %d of the form is %d, want the version of the parser", at, b[at])
	}
	b[at]++
	back := new(State)
	if err := back.Restore(b, "crawler", now); err != nil || *back != (State{}) {
		t.Errorf("rules of a later parser: %+v, %v, want the zero State", back, err)
	}
	for end := range b {
		if err := new(State).Restore(b[:end], "crawler", now); end < at && err == nil {
			t.Errorf("Restore of the first %d bytes returned no error", end)
		}
	}
}

func TestBinaryKeepsRulesThatFit(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("User-agent: *\nCrawl-delay: 1.5\nSitemap: /s.xml\nAllow: /z*y$\n")
	for b.Len() < 100<<10 {
		b.WriteString("Disallow: /catalogue/section-")
		for range 2 {
			b.WriteByte('a' + byte(random.IntN(26)))
		}
		b.WriteString("/items\n")
	}
	rules := Parse([]byte(b.String()), "bot")
	form, err := rules.AppendBinary(nil)
	if err != nil {
		t.Fatalf("AppendBinary of %d rules: %v", rules.Len(), err)
	}
	t.Logf("%d rules in %d bytes", rules.Len(), len(form))
	var back Rules
	if err := back.UnmarshalBinary(form); err != nil {
		t.Fatal(err)
	}
	if back.Len() != rules.Len() {
		t.Fatalf("%d rules, want %d", back.Len(), rules.Len())
	}
	for i := range rules.rules {
		if back.rules[i] != rules.rules[i] {
			t.Fatalf("rule %d is %+v, want %+v", i, back.rules[i], rules.rules[i])
		}
	}
	if d, ok := back.CrawlDelay(); !ok || d != 1500*time.Millisecond {
		t.Errorf("crawl-delay %v %v, want 1.5s", d, ok)
	}

	b.Reset()
	b.WriteString("User-agent: *\n")
	for b.Len() < 200<<10 {
		b.WriteString("Disallow: /")
		for range 40 {
			b.WriteByte('a' + byte(random.IntN(26)))
		}
		b.WriteByte('\n')
	}
	if got, err := Parse([]byte(b.String()), "bot").AppendBinary([]byte("x")); !errors.Is(err, ErrTooLarge) || string(got) != "x" {
		t.Errorf("AppendBinary of 200 KiB of random rules: %d bytes, %v, want ErrTooLarge and no more bytes", len(got), err)
	}
}
