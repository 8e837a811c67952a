package politeness

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// middle is a random source that always returns 0.5, so that jitter changes nothing.
func middle() float64 { return 0.5 }

func TestValidateNamesEveryFault(t *testing.T) {
	err := Policy{
		Delay: -2, MaxCrawlDelay: -2, LatencyFactor: -2, BackoffBase: -1,
		BackoffMax: -1, Jitter: 1, RetryBase: -1, MaxRetryAfter: -1, DeadAfter: -2,
	}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"Delay is", "MaxCrawlDelay", "LatencyFactor", "BackoffBase", "BackoffMax", "Jitter", "RetryBase", "MaxRetryAfter", "DeadAfter"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	p := Default()
	if err := p.Validate(); err != nil {
		t.Errorf("the default is not valid: %v", err)
	}
	if p.BackoffBase = 2 * time.Hour; p.Validate() == nil {
		t.Error("BackoffBase beyond BackoffMax: no error")
	}
	if err := (Policy{}).Validate(); err != nil {
		t.Errorf("the zero policy is not valid: %v", err)
	}
}

// TestZeroPolicy: 0 is 0. A host with the zero policy never waits, and never dies.
func TestZeroPolicy(t *testing.T) {
	h := New(Policy{})
	h.CrawlDelay(time.Minute)
	for range 50 {
		h.Start(epoch)
		h.Answered(epoch, time.Minute, 429, time.Hour, middle)
		h.Failed(epoch, middle)
		if h.Due(epoch) != 0 || h.Delay() != 0 || h.Dead() {
			t.Fatalf("due in %v, delay %v, dead %v, want none", h.Due(epoch), h.Delay(), h.Dead())
		}
	}
	if got := (Policy{}).RetryIn(3, middle); got != 0 {
		t.Errorf("RetryIn = %v, want 0", got)
	}
}

// TestSetPolicy: a host with a history obeys a new policy at once.
func TestSetPolicy(t *testing.T) {
	h := New(Default())
	h.CrawlDelay(20 * time.Second)
	h.Start(epoch)
	p := Default()
	for _, c := range []struct {
		delay, maxCrawlDelay, want time.Duration
	}{{time.Second, time.Minute, 20 * time.Second}, {30 * time.Second, time.Minute, 30 * time.Second}, {time.Second, 0, time.Second}, {0, 0, 0}} {
		p.Delay, p.MaxCrawlDelay = c.delay, c.maxCrawlDelay
		h.SetPolicy(p)
		if got := h.Due(epoch); got != c.want {
			t.Errorf("delay %v, at most %v of the crawl-delay: due in %v, want %v", c.delay, c.maxCrawlDelay, got, c.want)
		}
	}
}

func TestDelayIsTheLongest(t *testing.T) {
	for _, c := range []struct {
		policy     Policy
		crawlDelay time.Duration
		latency    time.Duration
		want       time.Duration
	}{
		{Default(), 0, 0, time.Second},
		{Default(), 5 * time.Second, 0, 5 * time.Second},
		{Default(), 500 * time.Second, 0, time.Minute},
		{Policy{Delay: time.Second}, 5 * time.Second, 0, time.Second},
		{Default(), 0, 3 * time.Second, 3 * time.Second},
		{Policy{Delay: time.Second, LatencyFactor: 4}, 0, 3 * time.Second, 12 * time.Second},
		{Policy{Delay: time.Second, LatencyFactor: 4}, 0, time.Hour, MaxLatencyDelay},
		{Policy{Delay: time.Second}, 0, 3 * time.Second, time.Second},
		{Policy{}, 0, 3 * time.Second, 0},
		{Policy{MaxCrawlDelay: time.Minute}, 2 * time.Second, 0, 2 * time.Second},
	} {
		h := New(c.policy)
		h.CrawlDelay(c.crawlDelay)
		h.Start(epoch)
		h.Answered(epoch, c.latency, 200, 0, middle)
		if got := h.Delay(); got != c.want {
			t.Errorf("%+v, crawl-delay %v, latency %v: delay %v, want %v", c.policy, c.crawlDelay, c.latency, got, c.want)
		}
		if got := h.Due(epoch); got != c.want {
			t.Errorf("%+v: due in %v right after a start, want %v", c.policy, got, c.want)
		}
	}
}

func TestNewHostIsDue(t *testing.T) {
	h := New(Default())
	if !h.NextDue().IsZero() || h.Due(epoch) != 0 {
		t.Errorf("a new host is due at %v, want at once", h.NextDue())
	}
}

func TestLaterStartCounts(t *testing.T) {
	h := New(Default())
	h.Start(epoch)
	h.Start(epoch.Add(700 * time.Millisecond)) // the request was sent later, because connecting took time
	h.Start(epoch)
	if got := h.Due(epoch); got != 1700*time.Millisecond {
		t.Errorf("after a start at 700ms: due in %v, want 1.7s", got)
	}
}

func TestLatencyIsSmoothed(t *testing.T) {
	h := New(Policy{Delay: time.Millisecond, LatencyFactor: 1})
	h.Answered(epoch, time.Second, 200, 0, middle)
	h.Answered(epoch, 5*time.Second, 200, 0, middle)
	if got := h.Delay(); got != 2*time.Second {
		t.Errorf("after latencies of 1s and 5s: delay %v, want 2s", got)
	}
}

// TestWhatHappensToTheHost checks the table of the package comment.
func TestWhatHappensToTheHost(t *testing.T) {
	failed := func(h *Host, now time.Time) { h.Failed(now, middle) }
	broken := func(h *Host, now time.Time) { h.Broken(now, middle) }
	cut := func(h *Host, now time.Time) { h.Cut(now, middle) }
	heard := func(h *Host, now time.Time) { h.Heard() }
	answer := func(status int, after time.Duration) func(*Host, time.Time) {
		return func(h *Host, now time.Time) { h.Answered(now, 0, status, after, middle) }
	}
	type event = func(*Host, time.Time)
	for name, c := range map[string]struct {
		events   []event
		backoff  time.Duration // the back-off in progress after the last event
		failures int
	}{
		"200":                     {[]event{answer(200, 0)}, 0, 0},
		"404":                     {[]event{answer(404, 0)}, 0, 0},
		"500":                     {[]event{answer(500, 0)}, 0, 0},
		"408 and 425":             {[]event{answer(408, 0), answer(425, 0)}, 0, 0},
		"429":                     {[]event{answer(429, 0)}, 10 * time.Second, 0},
		"503":                     {[]event{answer(503, 0)}, 10 * time.Second, 0},
		"503, 503, 503":           {[]event{answer(503, 0), answer(503, 0), answer(503, 0)}, 40 * time.Second, 0},
		"503, 500, 503":           {[]event{answer(503, 0), answer(500, 0), answer(503, 0)}, 20 * time.Second, 0},
		"503, 200, 503":           {[]event{answer(503, 0), answer(200, 0), answer(503, 0)}, 10 * time.Second, 0},
		"Retry-After longer":      {[]event{answer(503, time.Minute)}, time.Minute, 0},
		"Retry-After shorter":     {[]event{answer(503, time.Second)}, 10 * time.Second, 0},
		"Retry-After absurd":      {[]event{answer(429, 9999*time.Hour)}, DefaultMaxRetryAfter, 0},
		"Retry-After with a 200":  {[]event{answer(200, time.Minute)}, 0, 0},
		"no connection":           {[]event{failed}, 10 * time.Second, 1},
		"no connection, thrice":   {[]event{failed, failed, failed}, 40 * time.Second, 3},
		"one reset":               {[]event{broken}, 0, 1},
		"two resets":              {[]event{broken, broken}, 0, 2},
		"three resets":            {[]event{broken, broken, broken}, 10 * time.Second, 3},
		"cut twice":               {[]event{cut, cut}, 0, 2},
		"cut thrice":              {[]event{cut, cut, cut}, 10 * time.Second, 3},
		"cut for ever":            {[]event{cut, cut, cut, cut, cut, cut, cut, cut}, 320 * time.Second, 8},
		"cut after resets":        {[]event{broken, broken, broken, broken, broken, cut, broken, broken}, 320 * time.Second, 8},
		"discarded after resets":  {[]event{broken, broken, broken, broken, broken, heard, broken}, 0, 1},
		"resets with answers":     {[]event{broken, broken, answer(500, 0), broken, broken}, 0, 2},
		"twelve times at the cap": {[]event{failed, failed, failed, failed, failed, failed, failed, failed, failed, failed, failed, failed}, time.Hour, 12},
	} {
		h, now := New(Default()), epoch
		alive := strings.HasPrefix(name, "cut")
		for _, happen := range c.events {
			if until := h.BackoffUntil(); until.After(now) {
				now = until
			}
			happen(h, now)
		}
		if got := max(0, h.BackoffUntil().Sub(now)); got != c.backoff {
			t.Errorf("%s: back-off %v, want %v", name, got, c.backoff)
		}
		if got := h.Due(now); got != c.backoff {
			t.Errorf("%s: due in %v, want %v", name, got, c.backoff)
		}
		if h.Failures() != c.failures || h.Dead() != (c.failures >= DefaultDeadAfter && !alive) {
			t.Errorf("%s: %d failures, dead %v, want %d failures, dead %v", name, h.Failures(), h.Dead(), c.failures,
				c.failures >= DefaultDeadAfter)
		}
	}
}

// TestRequestsInFlightFailTogether: a fault that breaks all requests in flight at once
// counts as one failure.
func TestRequestsInFlightFailTogether(t *testing.T) {
	h := New(Default())
	for range 16 {
		h.Failed(epoch, middle)
	}
	if h.Failures() != 1 || h.Due(epoch) != DefaultBackoffBase {
		t.Errorf("16 requests failed at once: %d failures, due in %v, want 1 failure, due in %v", h.Failures(), h.Due(epoch), DefaultBackoffBase)
	}
	for range 16 {
		h.Answered(epoch, 0, 429, 0, middle)
	}
	if h.Due(epoch) != DefaultBackoffBase {
		t.Errorf("after 16 answers 429: due in %v, want still %v", h.Due(epoch), DefaultBackoffBase)
	}
	h.Answered(epoch, 0, 429, time.Minute, middle)
	if h.Due(epoch) != time.Minute {
		t.Errorf("after a 429 with Retry-After: due in %v, want its minute", h.Due(epoch))
	}
	h.Answered(epoch, 0, 200, 0, middle) // this request was in flight, too, so its answer does not end the back-off
	if h.Due(epoch) != time.Minute {
		t.Errorf("after a 200 that was in flight: due in %v, want still a minute", h.Due(epoch))
	}
}

func TestHostDiesAfterFailures(t *testing.T) {
	p := Default()
	p.DeadAfter = 2
	h, now := New(p), epoch
	for range 2 {
		if h.Dead() {
			t.Error("dead after less than 2 failures")
		}
		h.Failed(now, middle)
		now = h.NextDue()
	}
	if !h.Dead() {
		t.Error("not dead after 2 failures")
	}
	p.DeadAfter = 0
	never := New(p)
	for now := epoch; never.Failures() < 50; now = never.NextDue() {
		never.Failed(now, middle)
	}
	if never.Dead() {
		t.Error("dead although DeadAfter is 0")
	}
}

func TestRetryIn(t *testing.T) {
	p := Default()
	for attempts, want := range []time.Duration{time.Second, time.Second, 4 * time.Second, 16 * time.Second, 64 * time.Second} {
		if got := p.RetryIn(attempts, middle); got != want {
			t.Errorf("RetryIn(%d) = %v, want %v", attempts, got, want)
		}
	}
	if got := p.RetryIn(1000, func() float64 { return 1 }); got != DefaultBackoffMax {
		t.Errorf("RetryIn(1000) = %v, want %v", got, DefaultBackoffMax)
	}
	low, high := p.RetryIn(1, func() float64 { return 0 }), p.RetryIn(1, func() float64 { return 1 })
	if low != 800*time.Millisecond || high != 1200*time.Millisecond {
		t.Errorf("RetryIn(1) from %v to %v, want 1s ± 20%%", low, high)
	}
}

// policies draws a random valid policy.
func policies(t *rapid.T) Policy {
	p := Default()
	p.Delay = rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, time.Minute}).Draw(t, "delay")
	p.MaxCrawlDelay = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "max crawl-delay")
	p.LatencyFactor = rapid.SampledFrom([]float64{0, 0.5, 1, 10}).Draw(t, "latency factor")
	p.Jitter = rapid.SampledFrom([]float64{0, 0.2, 0.9}).Draw(t, "jitter")
	p.DeadAfter = rapid.SampledFrom([]int{0, 1, 6}).Draw(t, "dead after")
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

// happen records a random event: it calls CrawlDelay, Answered, Failed or Broken of h.
func happen(t *rapid.T, h *Host, now time.Time) {
	random := func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "chance") }
	switch rapid.IntRange(0, 4).Draw(t, "event") {
	case 0:
		h.CrawlDelay(time.Duration(rapid.Int64Range(-1, int64(time.Hour)).Draw(t, "crawl-delay")))
	case 1, 2:
		status := rapid.SampledFrom([]int{200, 301, 404, 408, 429, 500, 503}).Draw(t, "status")
		latency := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "latency"))
		after := time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "retry-after"))
		h.Answered(now, latency, status, after, random)
	case 3:
		h.Failed(now, random)
	case 4:
		h.Broken(now, random)
	}
}

// TestStartsKeepTheirDistance makes random events with several requests in flight. Two
// starts that obey Due are never closer than the delay, no start is within a back-off,
// and no wait is longer than the longest limit of the policy.
func TestStartsKeepTheirDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policies(t)
		h, now, last := New(p), epoch, time.Time{}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "start") {
				wait := h.Due(now)
				if wait > max(p.BackoffMax, p.MaxRetryAfter, p.Delay, MaxLatencyDelay, p.MaxCrawlDelay) {
					t.Fatalf("due in %v, longer than every limit of the policy", wait)
				}
				now = now.Add(wait)
				if h.Due(now) != 0 || h.NextDue().After(now) {
					t.Fatalf("the host is not due after the wait that Due returned")
				}
				if !last.IsZero() && now.Sub(last) < p.Delay {
					t.Fatalf("starts %v apart, want at least the policy's delay %v", now.Sub(last), p.Delay)
				}
				if !last.IsZero() && now.Sub(last) < h.Delay() {
					t.Fatalf("starts %v apart, want at least the host's delay %v", now.Sub(last), h.Delay())
				}
				if now.Before(h.BackoffUntil()) {
					t.Fatalf("start %v before the back-off ends", h.BackoffUntil().Sub(now))
				}
				last = now
				h.Start(now)
			} else {
				before := h.BackoffUntil()
				happen(t, h, now)
				if h.BackoffUntil().Before(before) {
					t.Fatalf("back-off shortened from %v to %v", before, h.BackoffUntil())
				}
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "pass")))
		}
	})
}

func TestBlobRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policies(t)
		h := New(p)
		now := epoch
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			happen(t, h, now)
			now = now.Add(time.Minute)
		}
		blob, err := h.AppendBinary([]byte("x"))
		if err != nil || len(blob) > 39 {
			t.Fatalf("AppendBinary = %d bytes, %v, want at most 39", len(blob), err)
		}
		back := New(p)
		if err := back.UnmarshalBinary(blob[1:]); err != nil {
			t.Fatal(err)
		}
		if d := back.Delay() - h.Delay(); d.Abs() > time.Millisecond { // a blob stores whole ms
			t.Fatalf("after UnmarshalBinary: delay %v, was %v", back.Delay(), h.Delay())
		}
		if back.Failures() != h.Failures() || back.Dead() != h.Dead() || back.backoffs != h.backoffs {
			t.Fatalf("after UnmarshalBinary: %+v, was %+v", back, h)
		}
		if back.Due(now) != 0 {
			t.Fatalf("after UnmarshalBinary: due in %v, want 0: a host that is leased again is due", back.Due(now))
		}
	})
}

func TestUnmarshalRefuses(t *testing.T) {
	good, _ := New(Default()).MarshalBinary()
	for _, b := range [][]byte{nil, {}, {2, 0, 0, 0, 0}, good[:len(good)-1], append(good, 0), {1, 0, 0, 200, 1, 0}, {1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 0, 0}} {
		h := New(Policy{Delay: time.Minute})
		if err := h.UnmarshalBinary(b); !errors.Is(err, ErrBlob) {
			t.Errorf("UnmarshalBinary(%x) = %v, want ErrBlob", b, err)
		}
		if h.Delay() != time.Minute {
			t.Errorf("UnmarshalBinary(%x) changed the host", b)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h := New(Default())
		if h.UnmarshalBinary(b) == nil && (h.Delay() < DefaultDelay || h.Delay() > time.Minute) {
			t.Errorf("UnmarshalBinary(%x): delay %v, want %v to 1m", b, h.Delay(), DefaultDelay)
		}
	})
}

func BenchmarkHost(b *testing.B) {
	h, now := New(Default()), epoch
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(h.Due(now))
		h.Start(now)
		h.Answered(now, time.Millisecond, 200, 0, middle)
	}
}

// answersOf tells h the answers in text, which are a second apart: w is a wall, a its repetition for the
// same URL, p a page. It returns the time after the last one.
func answersOf(h *Host, text string, now time.Time) time.Time {
	for _, c := range text {
		switch c {
		case 'p':
			h.Passed(now)
			h.Answered(now, time.Millisecond, 200, 0, middle)
		default:
			h.Walled(now, c == 'a')
			h.Answered(now, time.Millisecond, 403, 0, middle)
		}
		now = now.Add(time.Second)
	}
	return now
}

// TestBlockedAfterFiveOfTen: five walls among the last ten answers block a host, fewer do not.
func TestBlockedAfterFiveOfTen(t *testing.T) {
	for text, want := range map[string]bool{
		"w": false, "wwww": false, "wwwww": true, "wwwwp": false, "wwwwpw": true, "wwwwpppppw": true,
		"wpppppppppwwww": false, "wwwwppppppppwpww": false, "wwwwppppppwwww": false, "pwpwpwpwpw": true, "pwppwppwppwppwppw": false,
		"ppppppppppppppppppppwwww": false, "ppppppppppppppppppppwwwww": true, "waaaaaaa": false, "wwwwaaaa": false, "wwwwaw": true,
	} {
		h := New(Default())
		answersOf(h, text, epoch)
		if h.Blocked() != want {
			t.Errorf("after %s: blocked is %v, want %v", text, h.Blocked(), want)
		}
	}
}

// TestBlocksGetLonger: a blocked host is asked once after 10 min, 1 h, 6 h, 24 h, and then once a day. Answers
// to requests that were in flight when a block began change nothing. A page ends the block.
func TestBlocksGetLonger(t *testing.T) {
	h := New(Default())
	now := answersOf(h, "wwwww", epoch)
	for i, want := range []time.Duration{10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 24 * time.Hour} {
		if got := h.Due(now) + time.Second; got != want {
			t.Fatalf("block %d lasts %v, want %v", i, got, want)
		}
		answersOf(h, "wpw", now)
		if got := h.Due(now) + time.Second; got != want || !h.Blocked() {
			t.Fatalf("after answers in flight, block %d lasts %v, want %v", i, got, want)
		}
		now = now.Add(h.Due(now))
		kept, _ := h.MarshalBinary()
		if h = New(Default()); h.UnmarshalBinary(kept) != nil || !h.Blocked() || h.Due(now) != 0 {
			t.Fatalf("block %d is lost when the host is stored: %+v", i, h)
		}
		now = answersOf(h, string("aw"[i%2]), now) // even if the URL was refused before
	}
	now = now.Add(h.Due(now))
	if answersOf(h, "pwwww", now); h.Blocked() {
		t.Error("blocked after a page and four walls")
	}
	if answersOf(h, "w", now.Add(time.Minute)); h.Due(now.Add(time.Minute)) != 10*time.Minute {
		t.Errorf("the next block lasts %v, want 10m", h.Due(now.Add(time.Minute)))
	}
}

// TestBlockOutlastsBackoff: a wall with the status 429 begins a back-off, which does not hide the block.
func TestBlockOutlastsBackoff(t *testing.T) {
	h, now := New(Default()), epoch
	for range 5 {
		now = now.Add(h.Due(now))
		h.Walled(now, false)
		h.Answered(now, time.Millisecond, 429, time.Minute, middle)
	}
	if got := h.Due(now); got != 10*time.Minute {
		t.Errorf("after five walls with 429 the host is due in %v, want 10m", got)
	}
}

// TestUnmarshalWithoutWalls: the state that an earlier version has stored is read.
func TestUnmarshalWithoutWalls(t *testing.T) {
	h := New(Default())
	if err := h.UnmarshalBinary([]byte{2, 0, 0, 0, 7, 3}); err != nil || h.Failures() != 7 || h.Blocked() || h.Walls() != 0 {
		t.Errorf("%v, %+v, want 7 failures", err, h)
	}
}

// TestReasons: a host says where its delay comes from, and why it backs off, also after its state was stored.
func TestReasons(t *testing.T) {
	t.Parallel()
	half := func() float64 { return 0.5 }
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		name           string
		do             func(h *Host)
		delay, backoff string
	}{
		{"new", func(*Host) {}, "set", ""},
		{"a crawl-delay", func(h *Host) { h.CrawlDelay(9 * time.Second) }, "robots.txt", ""},
		{"a short crawl-delay", func(h *Host) { h.CrawlDelay(time.Millisecond) }, "set", ""},
		{"slow", func(h *Host) { h.Answered(now, 5*time.Second, 200, 0, half) }, "latency", ""},
		{"429", func(h *Host) { h.Answered(now, 1, 429, time.Hour, half) }, "set", "429"},
		{"503", func(h *Host) { h.Answered(now, 1, 503, 0, half) }, "set", "503"},
		{"no connection", func(h *Host) { h.Failed(now, half) }, "set", "no connection"},
		{"one reset", func(h *Host) { h.Broken(now, half) }, "set", ""},
		{"three resets", func(h *Host) { h.Broken(now, half); h.Broken(now, half); h.Broken(now, half) }, "set", "no answer"},
		{"three cut answers", func(h *Host) { h.Cut(now, half); h.Cut(now, half); h.Cut(now, half) }, "set", "answers that end early"},
		{"an answer ends it", func(h *Host) { h.Failed(now, half); h.Answered(now.Add(24*time.Hour), 1, 200, 0, half) }, "set", ""},
	} {
		h := New(Default())
		c.do(h)
		stored, err := h.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		again := New(Default())
		if err := again.UnmarshalBinary(stored); err != nil {
			t.Fatal(err)
		}
		for _, h := range []*Host{h, again} {
			if h.DelayReason() != c.delay || h.BackoffReason() != c.backoff {
				t.Errorf("%s: delay by %q, back-off by %q, want %q, %q", c.name, h.DelayReason(), h.BackoffReason(), c.delay, c.backoff)
			}
		}
	}
}
