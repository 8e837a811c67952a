package testweb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// requestAt returns a made-up request for a canonical URL, which starts at the given
// time.
func requestAt(start time.Duration, url string) Request {
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return Request{Host: host, Path: "/" + path, Start: start, Status: 200}
}

func TestJudgeForgedLogs(t *testing.T) {
	w := hard(t, All)
	root := "http://" + hostName(0) + "/"
	other := w.url(target{kind: aPage, page: page{0, 1}}) // on the same host
	far := "http://" + hostName(1) + "/"
	disallowed := find(t, w, "disallowed")
	closed := w.url(target{kind: aPage, page: disallowed})
	closedRobots := "http://" + hostName(disallowed.host) + "/robots.txt"
	throttledURL := w.url(target{kind: aPage, page: find(t, w, "throttled at first")})
	throttledHost, _, _ := strings.Cut(strings.TrimPrefix(throttledURL, "http://"), "/")
	refused := requestAt(5*time.Second, throttledURL)
	refused.Status, refused.RetryAfter, refused.Attempt = 429, 2*time.Second, 1
	second, third := requestAt(6900*ms, throttledURL), requestAt(6980*ms, throttledURL)
	second.Attempt, third.Attempt = 2, 2

	for _, c := range []struct {
		name   string
		delay  time.Duration
		log    []Request
		want   Verdict // without Closest and Examples
		isBad  bool
		closer time.Duration // the difference between the delay and the closest gap
	}{
		{name: "nothing"},
		{
			name: "polite", delay: time.Second,
			log:  []Request{requestAt(0, root+"robots.txt"), requestAt(time.Second, root), requestAt(2*time.Second, other)},
			want: Verdict{Requests: 3, Hosts: 1},
		},
		{
			name: "other hosts do not matter", delay: time.Second,
			log:  []Request{requestAt(0, root+"robots.txt"), requestAt(1, far+"robots.txt"), requestAt(time.Second, root), requestAt(time.Second+1, far)},
			want: Verdict{Requests: 4, Hosts: 2},
		},
		{
			name: "just within 10 %", delay: time.Second,
			log:  []Request{requestAt(0, root+"robots.txt"), requestAt(900*ms, root)},
			want: Verdict{Requests: 2, Hosts: 1}, closer: 100 * ms,
		},
		{
			name: "just beyond 10 %", delay: time.Second, isBad: true,
			log:  []Request{requestAt(0, root+"robots.txt"), requestAt(900*ms-1, root)},
			want: Verdict{Requests: 2, Hosts: 1, TooEarly: 1}, closer: 100*ms + 1,
		},
		{
			name: "just within 25 ms", delay: 100 * ms,
			log:  []Request{requestAt(0, root+"robots.txt"), requestAt(75*ms, root)},
			want: Verdict{Requests: 2, Hosts: 1}, closer: 25 * ms,
		},
		{
			name: "just beyond 25 ms", delay: 100 * ms, isBad: true,
			log:  []Request{requestAt(0, root+"robots.txt"), requestAt(75*ms-1, root)},
			want: Verdict{Requests: 2, Hosts: 1, TooEarly: 1}, closer: 25*ms + 1,
		},
		{
			name: "repeated at once", delay: time.Second, isBad: true,
			log:  []Request{requestAt(0, root+"robots.txt"), requestAt(time.Second, root), requestAt(time.Second+ms, root)},
			want: Verdict{Requests: 3, Hosts: 1, TooEarly: 1, Refetched: 1}, closer: 999 * ms,
		},
		{
			name: "fetched again", delay: time.Second,
			log:  []Request{requestAt(0, root+"robots.txt"), requestAt(time.Second, root), requestAt(2*time.Second, other), requestAt(3*time.Second, root)},
			want: Verdict{Requests: 4, Hosts: 1, Refetched: 1},
		},
		{
			name: "no robots.txt", isBad: true,
			log:  []Request{requestAt(0, root), requestAt(time.Second, other)},
			want: Verdict{Requests: 2, Hosts: 1, Unannounced: 1},
		},
		{
			name: "disallowed", isBad: true,
			log:  []Request{requestAt(0, closedRobots), requestAt(time.Second, closed)},
			want: Verdict{Requests: 2, Hosts: 1, Disallowed: 1},
		},
		{
			name: "wrong canonical form", isBad: true,
			log:  []Request{requestAt(0, root+"robots.txt"), requestAt(time.Second, root+"?utm_source=x"), requestAt(2*time.Second, root+"decoy/comment.html")},
			want: Verdict{Requests: 3, Hosts: 1, Unknown: 2},
		},
		{
			name: "unknown host", isBad: true,
			log:  []Request{requestAt(0, "http://elsewhere.test/robots.txt")},
			want: Verdict{Requests: 1, Hosts: 1, Unknown: 1},
		},
		{
			name: "impatient", isBad: true,
			log:  []Request{requestAt(0, "http://"+throttledHost+"/robots.txt"), refused, second},
			want: Verdict{Requests: 3, Hosts: 1, Impatient: 1},
		},
		{
			name: "patient, nearly",
			log:  []Request{requestAt(0, "http://"+throttledHost+"/robots.txt"), refused, third},
			want: Verdict{Requests: 3, Hosts: 1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := w.Judge(c.log, Manners{Delay: c.delay})
			if (v.Err() != nil) != c.isBad {
				t.Errorf("Err() = %v, want an error: %t", v.Err(), c.isBad)
			}
			if v.Closest != nil && c.delay > 0 {
				if short := v.Closest.Want - v.Closest.Gap; short != c.closer {
					t.Errorf("the closest gap is too short by %v (%v), want %v", short, v.Closest, c.closer)
				}
			}
			counts := v
			counts.Closest, counts.Examples = nil, nil
			if !reflect.DeepEqual(counts, c.want) {
				t.Errorf("verdict %+v, want %+v", counts, c.want)
			}
		})
	}
}

// TestCrawlDelayIsJudged checks that a longer Crawl-delay applies to the requests
// after robots.txt.
func TestCrawlDelayIsJudged(t *testing.T) {
	w, host := hard(t, Robots), -1
	for h := range w.shape.hosts() {
		if w.crawlDelay(h) > 0 && w.shape.size(h) > 2 {
			host = h
		}
	}
	if host < 0 {
		t.Fatal("no host sets a Crawl-delay")
	}
	name := "http://" + hostName(host) + "/"
	one, two := w.url(target{kind: aPage, page: page{host, 1}}), w.url(target{kind: aPage, page: page{host, 2}})
	log := []Request{requestAt(0, name+"robots.txt"), requestAt(100*ms, name), requestAt(300*ms, one), requestAt(400*ms, two)}
	v := w.Judge(log, Manners{Delay: 100 * ms})
	if v.TooEarly != 1 || v.Closest.After != strings.TrimPrefix(two, strings.TrimSuffix(name, "/")) || v.Closest.Want != 200*ms {
		t.Errorf("%d requests are too early, the closest gap is %v; want 1, and that of the last request with 200ms", v.TooEarly, v.Closest)
	}
}

// TestLogRoundTrip checks that the written log and the log in memory have the same
// requests.
func TestLogRoundTrip(t *testing.T) {
	var out bytes.Buffer
	w := newWeb(t, Config{Seed: *seed, Hosts: 100, Pages: 4000, Hardships: All, MeanBytes: 500, MaxBodyBytes: 128 << 10, KeepLog: true, Log: &out})
	for _, url := range []string{w.Seeds()[0], w.Seeds()[0] + "?q=<é>&x", w.Seeds()[1], w.url(target{kind: aDeadPage})} {
		fetch(t, w, url)
	}
	read, err := ReadLog(&out)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(read, w.Log()) {
		t.Errorf("the written log has %+v\nLog has %+v", read, w.Log())
	}
	if last := read[len(read)-1]; last.Status != 0 || last.Host != deadName(0) {
		t.Errorf("the last request is %+v, want status 0 from a dead host", last)
	}
	if _, err := ReadLog(strings.NewReader("{}\nnonsense\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("ReadLog with nonsense in line 2: %v, want an error that names the line", err)
	}
}

// TestCompareForgedRecords puts each kind of fault into the records of a correct crawl,
// and checks that Compare finds it.
func TestCompareForgedRecords(t *testing.T) {
	w := newWeb(t, Config{Seed: *seed, Hosts: 20, Pages: 800, Hardships: All, MeanBytes: 500, MaxBodyBytes: 64 << 10})
	var right []map[string]any
	for e := range w.Expected() {
		r := map[string]any{"url": e.URL, "outcome": e.Outcome, "round": 0}
		if e.Status > 0 {
			r["status"] = e.Status
		}
		if e.RedirectTo != "" {
			r["redirect_to"] = e.RedirectTo
		}
		if e.Truncated {
			r["truncated"] = true
		}
		if digest, isRead := w.Digest(e.URL); isRead {
			r["title"], r["digest"] = e.Title, "sha256:"+digest
		}
		right = append(right, r)
	}
	first := func(outcome string) int {
		for i, r := range right {
			if r["outcome"] == outcome {
				return i
			}
		}
		t.Fatalf("no record has the outcome %s", outcome)
		return 0
	}
	with := func(at int, field string, value any) func() []map[string]any {
		return func() []map[string]any {
			records := append([]map[string]any(nil), right...)
			changed := map[string]any{}
			for k, v := range right[at] {
				changed[k] = v
			}
			if changed[field] = value; value == nil {
				delete(changed, field)
			}
			records[at] = changed
			return records
		}
	}
	more := func(record map[string]any) func() []map[string]any {
		return func() []map[string]any { return append(right[:len(right):len(right)], record) }
	}
	dead := len(right) - 1
	truncated := func() int {
		for i, r := range right {
			if r["truncated"] == true {
				return i
			}
		}
		t.Fatal("no expected record is truncated")
		return 0
	}()
	for _, c := range []struct {
		name    string
		records func() []map[string]any
		want    func(Report) int
	}{
		{"missing", func() []map[string]any { return right[1:] }, func(r Report) int { return r.Missing }},
		{"unexpected", more(map[string]any{"url": "http://h000000.test/nothing", "outcome": "ok"}), func(r Report) int { return r.Unexpected }},
		{"duplicate", more(right[5]), func(r Report) int { return r.Duplicates }},
		{"outcome", with(first("robots"), "outcome", "ok"), func(r Report) int { return r.Wrong["outcome"] }},
		{"dead outcome", with(dead, "outcome", "ok"), func(r Report) int { return r.Wrong["outcome"] }},
		{"status", with(first("client_error"), "status", 402), func(r Report) int { return r.Wrong["status"] }},
		{"status left out", with(first("ok"), "status", nil), func(r Report) int { return r.Wrong["status"] }},
		{"redirect", with(first("redirect"), "redirect_to", "http://h000000.test/x"), func(r Report) int { return r.Wrong["redirect_to"] }},
		{"title", with(first("ok"), "title", "Another"), func(r Report) int { return r.Wrong["title"] }},
		{"digest", with(first("ok"), "digest", "sha256:00"), func(r Report) int { return r.Wrong["digest"] }},
		{"digest left out", with(first("ok"), "digest", nil), func(r Report) int { return r.Wrong["digest"] }},
		{"truncated", with(first("ok"), "truncated", true), func(r Report) int { return r.Wrong["truncated"] }},
		{"not truncated", with(truncated, "truncated", false), func(r Report) int { return r.Wrong["truncated"] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := compare(t, w, c.records())
			if c.want(report) != 1 || report.Err() == nil {
				t.Errorf("report %+v, want this fault counted once", report)
			}
		})
	}
	for name, records := range map[string]func() []map[string]any{
		"as expected":   func() []map[string]any { return right },
		"another order": func() []map[string]any { return append(right[1:len(right):len(right)], right[0]) },
		"dead host":     with(dead, "outcome", "host_dead"),
		"second round":  more(map[string]any{"url": right[0]["url"], "outcome": "ok", "status": 200, "round": 1, "title": right[0]["title"], "digest": right[0]["digest"]}),
	} {
		t.Run(name, func(t *testing.T) {
			report := compare(t, w, records())
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Expected != len(right) {
				t.Errorf("Expected = %d, want %d", report.Expected, len(right))
			}
		})
	}
}

func compare(t *testing.T, w *Web, records []map[string]any) Report {
	t.Helper()
	var in bytes.Buffer
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&in, "%s\n", line)
	}
	report, err := w.Compare(&in)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// writes is a writer that sends the text of each Write on a channel.
type writes chan string

func (w writes) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// TestLogIsWrittenWhileServing: the line of a request is written to the log while the web
// is still served.
func TestLogIsWrittenWhileServing(t *testing.T) {
	written := make(writes, 10)
	w := newWeb(t, Config{Log: written})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Serve(ctx, listener) }()
	response, err := http.Get("http://" + listener.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	select {
	case lines := <-written:
		if strings.Count(lines, "\n") != 1 {
			t.Errorf("the log has %q, want one line", lines)
		}
	case <-time.After(20 * time.Second):
		t.Error("after 20 s, the log has no request")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestCompareTexts: if the crawl took the main text, a page whose whole body is in one element has it.
func TestCompareTexts(t *testing.T) {
	w := cornerWeb(t, OddMarkup)
	compared := 0
	for _, c := range []struct {
		name, text, other string // of a page whose text is compared, and of another page
		wrong             bool
	}{
		{"no text was taken", "", "", false},
		{"whole", "More. The bridge will be built of stone. More.", "x", false},
		{"empty", "", "x", true},
		{"another", "The bridge", "x", true},
	} {
		var in bytes.Buffer
		records := json.NewEncoder(&in)
		compared = 0
		for e := range w.Expected() {
			r := record{URL: e.URL, Outcome: e.Outcome, Status: e.Status, RedirectTo: e.RedirectTo, Text: c.other}
			if digest, isRead := w.Digest(e.URL); isRead {
				r.Title, r.Digest = e.Title, "sha256:"+digest
			}
			if e.Text != "" {
				r.Text = c.text
				compared++
			}
			if err := records.Encode(&r); err != nil {
				t.Fatal(err)
			}
		}
		report, err := w.Compare(&in)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if c.wrong {
			want = compared
		}
		if report.Wrong["text"] != want || len(report.Wrong) > 1 {
			t.Errorf("%s: %d texts are wrong, want %d: %v", c.name, report.Wrong["text"], want, report.Err())
		}
	}
	if compared < 7 {
		t.Errorf("%d pages whose text is compared, want 7 or more", compared)
	}
}
