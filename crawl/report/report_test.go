package report

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/topk"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fullReport returns a report of a large crawl in which all fields are set.
func fullReport() *Report {
	hour := 3600.0
	return &Report{
		Version: Version, Crawl: "archive.crawl", Made: epoch, End: "--max-time 6h0m0s is over",
		Resume: "crawler crawl --dir archive.crawl", ResumeNotes: []string{"the header Cookie is not shown: add it with -H again"},
		Run: &Run{Started: epoch, Seconds: 6 * hour, Pages: 1_234_567, Bytes: 34_567_890_123, Requests: 1_240_000,
			RobotsRequests: 4_321, Errors: 5_678, PagesPerSecond: 57.16, BytesPerSecond: 1_600_365, AddedPerSecond: 100,
			Outcomes: map[frontier.Outcome]uint64{frontier.OK: 1_230_000, frontier.Robots: 4_567}},
		Seeds: &Seeds{Added: 99, Known: 1, Refused: 2},
		Books: frontier.Books{Found: 45_678_901, Added: 5_000_000, Seen: 40_000_000,
			Refused: map[frontier.Reason]uint64{frontier.ReasonScope: 600_000, frontier.ReasonDepth: 70_000,
				frontier.ReasonExcluded: 8_000, frontier.ReasonMalformed: 800, frontier.ReasonTooLong: 100,
				frontier.ReasonScheme: 1, frontier.ReasonHops: 0},
			Queued: 3_700_000, Leased: 64, Done: 1_290_000, Failed: 9_936},
		RefusedByForm: []RefusedURL{
			{Reason: frontier.ReasonCalendar, URL: "http://b.test/cal/2032/01", Referrer: "http://b.test/cal/2031/12",
				Rule: "a date of 2032, outside 1900 to 2031", Flag: "--max-years-ahead -1"},
			{Reason: frontier.ReasonTooLong, URL: "http://b.test/\x1b[2J", Referrer: "http://b.test/", Rule: "longer than 2048 bytes", Flag: "--max-url-bytes 0"},
		},
		Outcomes: map[frontier.Outcome]uint64{frontier.OK: 1_234_567, frontier.Redirect: 40_000, frontier.ClientError: 10_433,
			frontier.Robots: 5_000, frontier.ServerError: 6_000, frontier.Network: 3_000, frontier.HostDead: 936},
		Pages: 1_285_000, Retries: 1_111, Delayed: 12, Hosts: 4_000, Records: "archive.crawl/pages.jsonl", Answers: "archive.crawl/warc",
		MissingRecords: 2,
		Limits:         []Share{{Politeness, 5 * hour, 5.0 / 6}, {Network, 0.9 * hour, 0.15}, {CPU, 0.1 * hour, 1.0 / 60}},
		Top: &TopHosts{
			Pages:  []HostCount{{Host: "b.test", Count: 99_999}},
			Errors: []HostCount{{Host: "evil\x1b[2J.test", Count: 1}},
		},
		NotTaken: []CauseCount{{Cause: "too_slow", Count: 1_200, Run: 200}, {Cause: "too_deep", Count: 34}},
		Errors:   Errors{{"refused", 3_900, 3_000, []fetcher.Example{{Time: epoch, URL: "http://a.example/\x1b]0;", Error: "connection refused"}}}, {Cause: "status_503", Count: 12}},
		TopAll: &TopHosts{
			Pages:   []HostCount{{Host: "www.example.org", Count: 123_456}, {Host: "b.test", Count: 110_011, Over: 12, Run: 99_999}},
			Errors:  []HostCount{{Host: "flaky.test", Count: 4_000, Cause: "status 503 Service Unavailable"}, {Host: "evil\x1b[2J.test", Count: 1, Run: 1}},
			Waiting: []HostCount{{Host: "slow.test", Count: 20_000_000, Over: 500}},
		},
		LastError: &fetcher.LastError{Time: epoch, Host: "flaky.test", Error: "robots.txt: dial tcp 192.0.2.1:443: connect: connection refused\x1b[2J"},
		Filter: &Filter{Keys: 5_000_000, Capacity: 12_000_000, Bytes: 43_000_000, Growth: true, Layers: []Layer{
			{FilterLayer: frontier.FilterLayer{Keys: 4_000_000, Capacity: 4_000_000, Bits: 115_000_000, Hashes: 20, Fill: 0.5, FPR: 9e-7, Target: 9e-7}},
			{FilterLayer: frontier.FilterLayer{Keys: 1_000_000, Capacity: 8_000_000, Bits: 260_000_000, Hashes: 24, Fill: 0.088, FPR: 1.2e-26, Target: 5e-8},
				FullIn: SecondsToFull(1_000_000, 8_000_000, 100)},
		}},
		FPR: &FalsePositives{
			Estimated: &Figure{P: 9.01e-7, Low: 8.97e-7, High: 9.04e-7},
			Probed:    &Figure{P: 8.8e-7, Low: 7.1e-7, High: 1.08e-6, Hits: 88, Trials: 100_000_000},
			Shadow:    &Figure{P: 0, Low: 0, High: 7.5e-4, Trials: 4_882},
			Lost:      &Lost{Expected: 1.16, Low: 1.15, High: 1.17},
		},
		Exact: &Exact{Keys: &ExactKeys{Pending: 1, Queued: 234_567, Done: 900_000, Failed: 432, Due: 1234, Lag: 90}, Recovered: 2, Promoted: 3},
		Relays: []RelayStatus{
			{Name: "audit", Events: 1, Bytes: 900, Seconds: 3600, Away: "dial tcp 192.0.2.9:4222: connect: connection refused\x1b[2J"},
			{Name: "index", Dead: 2}, {Name: "index", Worker: "host-1", Events: 12_345, Bytes: 34_567_890, Seconds: 90},
			{Name: "lost", Fault: "events: pages-000002.jsonl, bytes 0 to 1048576 is missing"},
		},
	}
}

// smallReport returns a report of a crawl that found little and measured nothing.
func smallReport() *Report {
	return &Report{Version: Version, Crawl: "go.dev.crawl", Made: epoch, End: "nothing is left to fetch",
		Run:      &Run{Started: epoch, Seconds: 0.4, Pages: 1, Bytes: 0, Requests: 1, RobotsRequests: 1},
		Books:    frontier.Books{Found: 1, Added: 1, Done: 1},
		Fault:    "added: counted 2, the sum is 1",
		Outcomes: map[frontier.Outcome]uint64{frontier.Robots: 1},
		Filter:   &Filter{Keys: 1, Capacity: 10, Layers: []Layer{{FilterLayer: frontier.FilterLayer{Keys: 1, Capacity: 10, Hashes: 1, FPR: 0.1, Target: 0.5}}}},
		FPR:      &FalsePositives{Estimated: &Figure{P: 0.1, Low: 0.1, High: 0.1}, Shadow: &Figure{High: 1}},
	}
}

// TestReportGolden compares the texts with files. -update writes these files again.
func TestReportGolden(t *testing.T) {
	for name, text := range map[string]func(*strings.Builder) error{
		"full.txt":    func(b *strings.Builder) error { return fullReport().WriteText(b) },
		"summary.txt": func(b *strings.Builder) error { return fullReport().WriteSummary(b) },
		"small.txt":   func(b *strings.Builder) error { return smallReport().WriteText(b) },
		"full.json": func(b *strings.Builder) error {
			enc := json.NewEncoder(b)
			enc.SetIndent("", "  ")
			return enc.Encode(fullReport())
		},
	} {
		var b strings.Builder
		if err := text(&b); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if strings.HasSuffix(name, ".txt") {
			checkText(t, name, b.String())
		}
	}
}

// checkText fails the test if a text does not fit into 80 columns or has control
// characters.
func checkText(t *testing.T, name, text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > textWidth || line != strings.TrimRight(line, " ") || line != human.Printable(line) {
			t.Errorf("%s: line %q is longer than %d, ends in blanks or is not printable", name, line, textWidth)
		}
	}
}

// TestReportJSON: a report that is written and read again is unchanged.
func TestReportJSON(t *testing.T) {
	text, err := json.Marshal(fullReport())
	if err != nil {
		t.Fatal(err)
	}
	back := new(Report)
	if err := json.Unmarshal(text, back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullReport(), back); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

func TestHostCounts(t *testing.T) {
	s := topk.New(2)
	s.Add("a.test", 5)
	s.Add("b.test", 1)
	s.Add("c.test", 2)
	if diff := cmp.Diff([]HostCount{{Host: "a.test", Count: 5}, {Host: "c.test", Count: 3, Over: 1}}, HostCounts(s, 10)); diff != "" {
		t.Errorf("HostCounts (-want +got):\n%s", diff)
	}
}

func TestSecondsToFull(t *testing.T) {
	if got := SecondsToFull(10, 30, 2); got == nil || *got != 10 {
		t.Errorf("SecondsToFull of 20 URLs at 2 URLs/s: %v, want 10", got)
	}
	for _, rate := range []float64{0, -1} {
		if got := SecondsToFull(10, 30, rate); got != nil {
			t.Errorf("SecondsToFull at %v URLs/s: %v, want nil", rate, *got)
		}
	}
	if got := SecondsToFull(30, 30, 1); got != nil {
		t.Errorf("SecondsToFull of a full layer: %v, want nil", *got)
	}
}

// TestBrokenWriter: WriteText returns the writer's error.
func TestBrokenWriter(t *testing.T) {
	for after := range 2 {
		if err := fullReport().WriteText(&broken{after}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("WriteText to a writer that fails after %d writes: error %v, want os.ErrClosed", after, err)
		}
	}
}

type broken struct{ after int }

func (w *broken) Write(p []byte) (int, error) {
	if w.after--; w.after < 0 {
		return 0, os.ErrClosed
	}
	return len(p), nil
}

// TestChecksInLine: the summary has one line for links that lead out, with the flag or without it.
func TestChecksInLine(t *testing.T) {
	checked := frontier.Stats{Checks: frontier.Checks{Added: 1206, Queued: 4, Leased: 2},
		Outcomes: map[frontier.Outcome]uint64{frontier.OK: 7, frontier.CheckOK: 1100, frontier.CheckBroken: 3, frontier.CheckUnknown: 97}}
	more := checked
	more.Refused = map[frontier.Reason]uint64{frontier.ReasonExternal: 20, frontier.ReasonScope: 3, frontier.ReasonDepth: 9}
	for want, stats := range map[string]frontier.Stats{
		"": {Books: frontier.Books{Refused: map[frontier.Reason]uint64{frontier.ReasonDepth: 9}}},
		"1 link not checked (--check-external checks them)":                                         {Books: frontier.Books{Refused: map[frontier.Reason]uint64{frontier.ReasonScope: 1}}},
		"1,206 URLs = 1,100 ok + 3 broken + 97 unknown + 4 queued + 2 leased":                       checked,
		"1,206 URLs = 1,100 ok + 3 broken + 97 unknown + 4 queued + 2 leased; 23 links not checked": more,
	} {
		if got := ChecksOf(&stats).words(); got != want {
			t.Errorf("the line is %q, want %q", got, want)
		}
	}
}
