package trap_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/trap"
)

var in2026 = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)

func parse(t testing.TB, text string) canon.URL {
	t.Helper()
	url, err := newCanon(t).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func newCanon(t testing.TB) *canon.Canonicalizer {
	t.Helper()
	c, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func limits(t testing.TB, l trap.Limits) *trap.Limits {
	t.Helper()
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	return &l
}

func TestJudgeURLs(t *testing.T) {
	l := limits(t, trap.Default(in2026))
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
	} {
		if got, words := l.Judge(parse(t, test.url)); got != test.want || (got == "") != (words == "") {
			t.Errorf("Judge(%q) = %q, %q, want %q", test.url, got, words, test.want)
		}
	}
}

// TestEachReasonHasAFlag: each reason of Judge has a flag that allows the URL. The script
// traps.txtar of cmd/crawler uses these flags.
func TestEachReasonHasAFlag(t *testing.T) {
	for _, reason := range []frontier.Reason{frontier.ReasonTooLong, frontier.ReasonRepeats, frontier.ReasonParams, frontier.ReasonCalendar} {
		if trap.Permission(reason) == "" {
			t.Errorf("Permission(%s) names no flag", reason)
		}
	}
	if flag := trap.Permission(frontier.ReasonScope); flag != "" {
		t.Errorf("Permission(%s) = %q, want none: it is no reason of this package", frontier.ReasonScope, flag)
	}
}

func TestNoLimit(t *testing.T) {
	l := limits(t, trap.Limits{})
	url := "http://a.test/" + strings.Repeat("a/", 2000) + "9999/12?" + strings.Repeat("a&", 100)
	if got, _ := l.Judge(parse(t, url)); got != "" {
		t.Errorf("Judge without limits refuses the URL for %q", got)
	}
}

func TestFaultsAreNamed(t *testing.T) {
	err := trap.Limits{MaxURL: -2, LastYear: -3}.Validate()
	if err == nil || !strings.Contains(err.Error(), "MaxURL is -2") || !strings.Contains(err.Error(), "LastYear is -3") {
		t.Errorf("Validate() = %v, want both faults", err)
	}
}

func BenchmarkJudge(b *testing.B) {
	l := limits(b, trap.Default(in2026))
	url := parse(b, "https://www.example.org/2026/11/news/some-long-title-of-an-article?page=2&lang=en")
	for b.Loop() {
		if reason, _ := l.Judge(url); reason != "" {
			b.Fatal(reason)
		}
	}
}
