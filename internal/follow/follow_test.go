package follow

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/trap"
)

var errBroken = errors.New("the store is broken")

// world is a Crawl that has only h.example and its subdomains in scope. It refuses port 25.
type world struct{ err error }

func (w world) Opened(_ context.Context, host string) (string, error) {
	if host == "h.example" || strings.HasSuffix(host, ".h.example") {
		return "h.example", w.err
	}
	return "", w.err
}

func (world) CheckPort(port string) error {
	if port == "25" {
		return errors.New("port 25 is for mail")
	}
	return nil
}

func parse(t testing.TB, raw string) canon.URL {
	t.Helper()
	c, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	url, err := c.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

var in2026 = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)

// strict has rules of every kind that Judge applies.
var strict = Rules{
	MaxDepth: 2, MaxHops: 1, Trap: trap.Default(in2026),
	Exclude: []*regexp.Regexp{regexp.MustCompile(`\.pdf$`)}, Include: []*regexp.Regexp{regexp.MustCompile("/docs/")},
}

// TestOrderOfRules: if several rules refuse a link, the first of them gives the reason.
// Each row of the table corrects the fault for which the link of the previous row is refused.
func TestOrderOfRules(t *testing.T) {
	for _, c := range []struct {
		url         string
		depth, hops int
		want        frontier.Reason
	}{
		{"http://b.example:25/cal/2061/02.pdf", 3, 2, frontier.ReasonDepth},
		{"http://b.example:25/cal/2061/02.pdf", 2, 2, frontier.ReasonHops},
		{"http://b.example:25/cal/2061/02.pdf", 2, 1, frontier.ReasonScope},
		{"http://a.h.example:25/cal/2061/02.pdf", 2, 1, frontier.ReasonPort},
		{"http://a.h.example:80/cal/2061/02.pdf", 2, 1, frontier.ReasonCalendar},
		{"http://a.h.example/docs/1.pdf", 2, 1, frontier.ReasonExcluded},
		{"http://a.h.example/doc/1", 2, 1, frontier.ReasonExcluded},
		{"http://a.h.example/docs/1", 2, 1, ""},
	} {
		link := Link{URL: parse(t, c.url), Depth: c.depth, Hops: c.hops}
		got, err := strict.Judge(t.Context(), &link, world{})
		if err != nil || got.Reason != c.want || (got.Answer == Refuses) != (c.want != "") {
			t.Errorf("%s at depth %d after %d hops: %+v, %v; want %q", c.url, c.depth, c.hops, got, err, c.want)
		}
		trace, err := strict.Trace(t.Context(), &link, world{})
		if err != nil {
			t.Fatal(err)
		}
		first := slices.IndexFunc(trace, func(f Finding) bool { return f.Answer == Refuses })
		if first < 0 && c.want != "" || first >= 0 && trace[first] != got {
			t.Errorf("%s: Trace = %+v, want its first refusal to be that of Judge, %+v", c.url, trace, got)
		}
	}
}

// TestUnknownDepth: for a URL to which no link was found yet, the rules say whether the
// answer depends on its depth.
func TestUnknownDepth(t *testing.T) {
	for _, c := range []struct {
		most int
		want Answer
	}{{0, Refuses}, {1, Depends}, {NoLimit, Passes}} {
		rules := Rules{MaxDepth: c.most, MaxHops: 5}
		trace, err := rules.Trace(t.Context(), &Link{URL: parse(t, "http://h.example/"), Depth: Unknown, Hops: Unknown}, world{})
		if err != nil {
			t.Fatal(err)
		}
		if trace[0].Rule != Depth || trace[0].Answer != c.want || trace[1].Rule != Hops || trace[1].Answer != Depends {
			t.Errorf("MaxDepth %d: Trace = %+v, want the answer %s for Depth and Depends for Hops", c.most, trace, c.want)
		}
	}
}

// TestSeedRedirect: only the limits of hops and ports apply to the target of a
// seed's redirect.
func TestSeedRedirect(t *testing.T) {
	for _, c := range []struct {
		url  string
		hops int
		want frontier.Reason
	}{
		{"http://b.example/cal/2061/02.pdf", 1, ""},
		{"http://b.example/", 2, frontier.ReasonHops},
		{"http://b.example:25/", 1, frontier.ReasonPort},
	} {
		got, err := strict.Judge(t.Context(), &Link{URL: parse(t, c.url), Hops: c.hops, Kind: Named}, world{})
		if err != nil || got.Reason != c.want {
			t.Errorf("%s after %d hops: %+v, %v; want %q", c.url, c.hops, got, err, c.want)
		}
	}
}

func TestLimitHosts(t *testing.T) {
	rules := Rules{Scope: canon.ScopeDomain, MaxHosts: 2}
	for _, c := range []struct {
		member bool
		hosts  uint64
		want   Answer
	}{{false, 1, Passes}, {false, 2, Refuses}, {true, 2, Passes}, {true, 9, Passes}} {
		if f := rules.LimitHosts("h.example", c.member, c.hosts); f.Answer != c.want || (f.Reason != "") != (c.want == Refuses) {
			t.Errorf("member %t, %d hosts: %+v, want %s", c.member, c.hosts, f, c.want)
		}
	}
	if rules.Scope = canon.ScopeHost; rules.BoundsHosts() {
		t.Error("BoundsHosts = true for ScopeHost")
	}
}

func TestCrawlFails(t *testing.T) {
	link := Link{URL: parse(t, "http://h.example/")}
	if _, err := strict.Judge(t.Context(), &link, world{errBroken}); !errors.Is(err, errBroken) {
		t.Errorf("Judge: %v, want %v", err, errBroken)
	}
	if _, err := strict.Trace(t.Context(), &link, world{errBroken}); !errors.Is(err, errBroken) {
		t.Errorf("Trace: %v, want %v", err, errBroken)
	}
}

// TestJudgeAllocatesNothing: Judge does not allocate, because a worker judges
// thousands of links a second.
func TestJudgeAllocatesNothing(t *testing.T) {
	rules := Default(in2026)
	link := Link{URL: parse(t, "http://h.example/docs/1?a=b"), Depth: 1}
	var crawl Crawl = world{}
	if n := testing.AllocsPerRun(100, func() { _, _ = rules.Judge(t.Context(), &link, crawl) }); n > 0 {
		t.Errorf("%v allocations for one link, want none", n)
	}
}
