package view

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
)

func TestLogLine(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	LogLine(log, busy())
	r := busy()
	r.End.Left = -1
	LogLine(log, r)
	r.End = report.End{}
	LogLine(log, r)
	r.LastError = &fetcher.LastError{Time: r.Time, Host: "a.test", Error: "no such host"}
	LogLine(log, r)
	r.LastError = &fetcher.LastError{Time: r.Time.Add(-freshError), Host: "a.test", Error: "no such host"}
	LogLine(log, r) // the error is not recent any more
	r.Relays = []report.RelayStatus{{Name: "a", Events: 3}, {Name: "b", Events: 12}, {Name: "c"}}
	LogLine(log, r)
	const always = `level=INFO msg=progress pages=12345 pages_per_s=152.3 bytes_per_s=2.1e+06 queued=1234567 hosts=321 seen_share=0.873 failed=0 errors=12 ` +
		`limited_by="politeness: 321 hosts, 321 requests/s (--delay 1s)"`
	want := always + " ends_by=--max-pages done_share=0.123 left=9m36s\n" +
		always + " ends_by=--max-pages done_share=0.123\n" +
		always + "\n" +
		always + " last_error=\"a.test: no such host\"\n" +
		always + "\n" +
		always + " events_behind=12\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
