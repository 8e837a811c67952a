package trap_test

import (
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/trap"
)

func parse(t testing.TB, text string) canon.URL {
	t.Helper()
	c, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	url, err := c.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func limits(t testing.TB, l trap.Limits) *trap.Limits {
	t.Helper()
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	return &l
}

func TestJudgeURLs(t *testing.T) {
	l := limits(t, trap.Limits{Year: 2026})
	for _, test := range []struct {
		url  string
		want frontier.Reason
	}{
		{"http://a.test/", ""},
		{"http://a.test/" + strings.Repeat("x", 2048-len("http://a.test/")), ""},
		{"http://a.test/" + strings.Repeat("x", 2049-len("http://a.test/")), frontier.ReasonTooLong},
		{"http://a.test/a/b/a/b/a/b/a/b", ""},
		{"http://a.test/a/b/a/b/a/b/a/b/a", frontier.ReasonRepeats},
		{"http://a.test/a//a//a//a//a", frontier.ReasonRepeats},
		{"http://a.test/?p=/a/a/a/a/a/a", ""},
		{"http://a.test/?" + strings.Repeat("a=1&", 31) + "a=1", ""},
		{"http://a.test/?" + strings.Repeat("a=1&", 32) + "a=1", frontier.ReasonParams},
		{"http://a.test/cal/2031/12/", ""},
		{"http://a.test/cal/2032/01/", frontier.ReasonCalendar},
		{"http://a.test/cal/2032-01-07", frontier.ReasonCalendar},
		{"http://a.test/cal?day=2032-01", frontier.ReasonCalendar},
		{"http://a.test/cal?month=3&year=2032", frontier.ReasonCalendar},
		{"http://a.test/cal?year=2031", ""},
		{"http://a.test/cal?fiscalyear=2032", ""}, // fiscalyear is not a known name for a year
		{"http://a.test/cal/1899/12", frontier.ReasonCalendar},
		{"http://a.test/cal/1900/12", ""},
		{"http://a.test/item/4711/13", ""},  // no month
		{"http://a.test/item/4711/123", ""}, // no month
		{"http://a.test/item/4711", ""},     // this is no date at all
		{"http://a.test/item/84711/12", ""}, // a year does not have five digits
		{"http://a.test/rfc/8259-2017", ""}, // more digits follow 8259-20
		{"http://a.test/q?id=9999&y=9", ""}, // no year
		{"http://a.test/?y=9999", frontier.ReasonCalendar},
	} {
		if got, words := l.Judge(parse(t, test.url)); got != test.want || (got == "") != (words == "") {
			t.Errorf("Judge(%q) = %q, %q, want %q", test.url, got, words, test.want)
		}
	}
}

func TestNoLimit(t *testing.T) {
	l := limits(t, trap.Limits{
		MaxURL: trap.NoLimit, MaxRepeats: trap.NoLimit, MaxParams: trap.NoLimit, MaxAhead: trap.NoLimit, Year: 2026,
	})
	url := "http://a.test/" + strings.Repeat("a/", 2000) + "9999/12?" + strings.Repeat("a&", 100)
	if got, _ := l.Judge(parse(t, url)); got != "" {
		t.Errorf("Judge without limits refuses the URL for %q", got)
	}
}

func TestFaultsAreNamed(t *testing.T) {
	err := trap.Limits{MaxURL: -2, MaxAhead: -3}.Validate()
	if err == nil || !strings.Contains(err.Error(), "MaxURL is -2") || !strings.Contains(err.Error(), "MaxAhead is -3") {
		t.Errorf("Validate() = %v, want both faults", err)
	}
}

func BenchmarkJudge(b *testing.B) {
	l := limits(b, trap.Limits{Year: 2026})
	url := parse(b, "https://www.example.org/2026/11/news/some-long-title-of-an-article?page=2&lang=en")
	for b.Loop() {
		if reason, _ := l.Judge(url); reason != "" {
			b.Fatal(reason)
		}
	}
}
