package testweb

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLagOfLog checks that a gap is not a fault if it looks too short only because the
// server read the earlier request late. If the gap is too short even with this lag, it
// is a fault.
func TestLagOfLog(t *testing.T) {
	w := hard(t, None)
	root := "http://" + hostName(0) + "/"
	one, two := w.url(target{kind: aPage, page: page{0, 1}}), w.url(target{kind: aPage, page: page{0, 2}})
	began := time.Date(2026, 7, 5, 12, 0, 0, 0, time.UTC)
	forge := func(last time.Duration) (log []Request) {
		log = []Request{requestAt(0, root+"robots.txt"), requestAt(time.Second, root), requestAt(2400*ms, one), requestAt(last, two)}
		for i := range log {
			log[i].Read = began.Add(log[i].Start)
		}
		return log
	}
	records := fmt.Sprintf(`{"url":%q,"attempts":1,"fetched_at":"2026-07-05T12:00:01Z"}
{"url":%q,"attempts":1,"fetched_at":"2026-07-05T12:00:02Z"}
{"url":%q,"attempts":0,"fetched_at":"2026-07-05T11:00:00Z"}
{"url":%q,"attempts":1,"fetched_at":"2026-07-05T12:0`, root, one, two, two) // the last line is still being written
	for _, c := range []struct {
		name  string
		two   time.Duration
		stall time.Duration
		early int
	}{
		{"read 400 ms late", 3000 * ms, 0, 0},
		{"too early by more than the lag", 2899 * ms, 0, 1},
		{"too early by more than the lag, with a stall", 2899 * ms, time.Millisecond, 0},
	} {
		log := forge(c.two)
		log[0].Stall = c.stall
		promised := Manners{Delay: time.Second}
		if v := w.Judge(log, promised); v.TooEarly != 1 {
			t.Errorf("%s: without the lag, %d requests are too early, want 1", c.name, v.TooEarly)
		}
		started, err := ReadStarts(strings.NewReader(records))
		if err != nil {
			t.Fatal(err)
		}
		lag := LagOf(log, started)
		if want := (Lag{Requests: 2, Worst: 400 * ms, Stall: c.stall}); lag != want || lag.Err() != nil {
			t.Errorf("%s: lag %+v, Err() = %v, want %+v", c.name, lag, lag.Err(), want)
		}
		promised.Lag = lag.Most()
		if v := w.Judge(log, promised); v.TooEarly != c.early {
			t.Errorf("%s: with the lag, %d requests are too early, want %d: %v", c.name, v.TooEarly, c.early, v.Err())
		}
	}
	if err := (Lag{Requests: 5, Least: 11 * ms}).Err(); err == nil {
		t.Error("Err of a lag without a request that was read within 10 ms: nil, want an error")
	}
}

// TestHalfALine checks that an incomplete line at the end of a log is ignored, and that
// an incomplete line before the end is an error.
func TestHalfALine(t *testing.T) {
	whole := fmt.Sprintf(`{"host":%q,"path":"/robots.txt","start_ns":1,"status":404}`, hostName(0))
	for _, c := range []struct {
		log      string
		requests int
		isFault  bool
	}{
		{whole + "\n" + whole[:20], 1, false},
		{whole + "\n" + whole, 2, false},
		{whole + "\n" + whole[:20] + "\n", 1, true},
		{whole[:20] + "\n" + whole + "\n", 0, true},
		{whole + "\nno JSON\n", 1, true},
	} {
		log, err := ReadLog(strings.NewReader(c.log))
		if len(log) != c.requests || (err != nil) != c.isFault {
			t.Errorf("%q: %d requests, error %v; want %d requests, and an error: %t", c.log, len(log), err, c.requests, c.isFault)
		}
	}
}
