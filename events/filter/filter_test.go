package filter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/filter"
)

func TestParse(t *testing.T) {
	event := func(kind, outcome, host, class string) *events.Event {
		return &events.Event{Type: kind, Host: host, Data: json.RawMessage(fmt.Sprintf(`{"outcome":%q%s}`, outcome, class))}
	}
	page := event(events.PageDone, "ok", "www.example.org", "")
	seed := event(events.PageDone, "redirect", "example.org", `,"class":"exact"`)
	failed := event(events.PageFailed, "network", "b.test", "")
	dropped := event(events.PageDropped, "dropped", "b.test", "")
	for _, tc := range []struct {
		types, filters string // with spaces between them
		want           string // initials of the events that match: page, seed, failed, dropped
	}{
		{"", "", "psf"},
		{"page.done", "", "ps"},
		{"page.failed", "", "f"},
		{"page.failed page.done", "", "psf"},
		{"", "outcome=ok", "p"},
		{"", "outcome=ok,network", "pf"},
		{"", "outcome!=ok,network", "s"},
		{"", "host=example.org", "s"},
		{"", "host=*.example.org", "p"},
		{"", "host=*.example.org,example.org", "ps"},
		{"", "host=EXAMPLE.org", "s"},
		{"", "host=*.Example.org.", "p"},
		{"", "host!=b.test outcome!=redirect", "p"},
		{"", "class=bulk", "pf"},
		{"", "class=exact,sitemap", "s"},
		{"page.done", "class=bulk", "p"},
		{"page.failed", "class=exact", ""},
		{"page.dropped", "", "d"},
		{"page.dropped page.failed", "host=b.test", "fd"},
		{"", "outcome=dropped,ok", "pd"},
		{"", "outcome!=ok", "sf"},
		{"", "class!=host=*.test,exact", "pf"},
	} {
		keep, err := filter.Parse(strings.Fields(tc.types), strings.Fields(tc.filters))
		if err != nil {
			t.Errorf("Parse(%q, %q): error %v", tc.types, tc.filters, err)
			continue
		}
		if (keep == nil) != (tc.types+tc.filters == "") {
			t.Errorf("Parse(%q, %q): the function is nil: %v, want nil only without types and filters", tc.types, tc.filters, keep == nil)
		}
		got := ""
		for i, e := range []*events.Event{page, seed, failed, dropped} {
			if keep == nil && e != dropped || keep != nil && keep(e) {
				got += "psfd"[i : i+1]
			}
		}
		if got != tc.want {
			t.Errorf("types %q and filters %q keep %q, want %q", tc.types, tc.filters, got, tc.want)
		}
	}
	for value, host := range map[string]string{
		"bücher.example": "xn--bcher-kva.example", "*.bücher.example": "www.xn--bcher-kva.example",
		"[::1]": "[::1]", "[0:0::1]": "[::1]", "127.0.0.1": "127.0.0.1", "localhost": "localhost", "a_b.test": "a_b.test",
	} {
		keep, err := filter.Parse(nil, []string{"host=" + value})
		if err != nil || !keep(event(events.PageDone, "ok", host, "")) {
			t.Errorf("filter host=%s does not keep an event of %s (error %v)", value, host, err)
		}
	}
	keep, err := filter.Parse(nil, []string{"outcome!=ok"})
	if err != nil || keep(&events.Event{Data: json.RawMessage(`{`)}) {
		t.Errorf("an event whose data is no JSON is kept (%v)", err)
	}
}

// TestUnchanged: events of unchanged pages are kept only if a filter names the change.
func TestUnchanged(t *testing.T) {
	event := func(data string) *events.Event {
		return &events.Event{Type: events.PageDone, Host: "a.test", Data: json.RawMessage(data)}
	}
	all := []*events.Event{
		event(`{"outcome":"ok","change":"new"}`), event(`{"outcome":"not_modified","change":"unchanged"}`),
		event(`{"outcome":"ok","fields":{"x":{"change":"unchanged"}}}`), event(`{"outcome":"ok"}`),
	}
	for filters, want := range map[string]string{
		"outcome=ok": "nf-", "host=a.test": "nf-", "change=unchanged": "u", "change=new,unchanged": "nu", "change!=new": "uf-", "change=gone": "",
	} {
		keep, err := filter.Parse(nil, []string{filters})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i, e := range all {
			if keep(e) {
				got += "nuf-"[i : i+1]
			}
		}
		if got != want {
			t.Errorf("%s keeps %q, want %q", filters, got, want)
		}
	}
	if !all[1].Unchanged() || all[0].Unchanged() || all[2].Unchanged() {
		t.Error("Unchanged is wrong")
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct{ types, filters, want string }{
		{"page.gone", "", `type of events is "page.gone", want page.done, page.failed or page.dropped`},
		{"", "outcome", `filter is "outcome", want outcome=, host=, class= or change=`},
		{"", "colour=red", `filter is "colour=red", want outcome=, host=, class= or change=`},
		{"", "change=often", `filter "change=often": "often" is no change`},
		{"", "outcome=fine", `filter "outcome=fine": "fine" is no outcome`},
		{"", "class=exact,", `filter "class=exact,": "" is no class`},
		{"", "host=", `filter "host=": "" is no host`},
		{"", "host=*.", `filter "host=*.": "*." is no host`},
		{"", "host=a.test,http://h/", `"http://h/" is no host`},
		{"", "host=h/", `"h/" is no host`},
		{"", "host=h:80", `"h:80" is no host`},
		{"", "host=*h", `"*h" is no host`},
		{"", "host=*.*.h", `"*.*.h" is no host`},
	} {
		_, err := filter.Parse(strings.Fields(tc.types), strings.Fields(tc.filters))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Parse(%q, %q): error %v, want %s", tc.types, tc.filters, err, tc.want)
		}
	}
}
