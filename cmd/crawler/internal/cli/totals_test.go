package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

func reportOf(t *testing.T, dir string) (r report.Report) {
	t.Helper()
	if err := json.Unmarshal([]byte(must(t, "report", "--json", "--probe", "1ms", "--dir", dir)), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// lastReport returns the report that a run left in dir.
func lastReport(t *testing.T, dir string) (r report.Report) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReportOfWholeCrawl: a report has the hosts and outcomes of the whole crawl and those
// of the last run, even if the last run fetched nothing.
func TestReportOfWholeCrawl(t *testing.T) {
	t.Parallel()
	address := site(t)
	dir := crawled(t, address, "--scope", "any", "--max-depth", "0", "http://a.test/", "http://a.test/ok", "http://b.test/broken")
	again := []string{"crawl", "--dir", dir, "--connect-to", "*.test=" + address}
	must(t, append(again, "http://a.test/ok?2")...)
	r := reportOf(t, dir)
	if got := r.TopAll.Pages[0]; got != (report.HostCount{Host: "a.test", Count: 3, Run: 1}) || len(r.TopAll.Errors) != 1 || r.TopAll.Errors[0].Host != "b.test" {
		t.Errorf("hosts of the whole crawl after the second run: %+v", r.TopAll)
	}
	if r.Top.Pages[0] != (report.HostCount{Host: "a.test", Count: 1}) || len(r.Run.Outcomes) != 1 || r.Run.Outcomes[frontier.OK] != 1 || r.Outcomes[frontier.OK] != 3 {
		t.Errorf("second run: hosts %+v, outcomes %v; outcomes of the whole crawl: %v", r.Top, r.Run.Outcomes, r.Outcomes)
	}
	if len(r.Errors) != 1 || r.Errors[0].Cause != "status_500" || r.Errors[0].Count != 1 || len(r.Errors[0].Examples) != 1 ||
		r.Errors[0].Examples[0].URL != "http://b.test/broken" || r.Errors[0].Examples[0].Error != "status 500 Internal Server Error" {
		t.Errorf("errors by cause %+v, want one status_500 with an example", r.Errors)
	}
	must(t, again...)
	r = reportOf(t, dir)
	if got := r.TopAll.Pages[0]; got != (report.HostCount{Host: "a.test", Count: 3}) || r.Run.Outcomes == nil || len(r.Run.Outcomes) != 0 {
		t.Errorf("after a run without pages: hosts of the whole crawl %+v; outcomes of the run %v, want none", r.TopAll, r.Run.Outcomes)
	}
	out := must(t, "report", "--probe", "1ms", "--dir", dir)
	for _, want := range []string{"; this run: none\n", "Hosts with the most pages\n     whole crawl       this run\n", "               3              0  a.test\n",
		"Hosts with the most errors\n", "Errors by cause\n  status_500: 1, 0 in this run\n    20"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}

	// A crawl runs even if its totals cannot be read.
	if err := os.WriteFile(filepath.Join(dir, "totals.json"), []byte(`{"version":99}`), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, errs := run(t, "", append(again, "http://a.test/ok?3")...)
	if r = reportOf(t, dir); code != exitOK || !strings.Contains(errs, "totals of earlier runs not read, hosts are counted from this run on") || r.TopAll.Pages[0].Count != 1 {
		t.Errorf("crawl with unreadable totals: exit code %d: %s\nhosts of the whole crawl %+v", code, errs, r.TopAll)
	}
}

// TestReportProbesForASecond: a report looks up random keys to measure the error rate of the
// filter, until it has found enough errors or about a second has passed. This filter has very
// few errors, and the whole report takes at most 5 s.
func TestReportProbesForASecond(t *testing.T) {
	t.Parallel()
	dir := crawled(t, site(t), "--max-depth", "0", "http://a.test/")
	begun := time.Now()
	out := must(t, "report", "--dir", dir)
	if took := time.Since(begun); suite.TooLong(took, 5*time.Second) || !strings.Contains(out, "  probed ") {
		t.Errorf("report took %v, want at most 5s, and a line about its probes:\n%s", took, out)
	}
}
