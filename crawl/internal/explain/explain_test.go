package explain

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/follow"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/robots"
)

var update = flag.Bool("update", false, "write testdata/explanations.txt anew")

var (
	now    = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	hasher bloomstore.Hasher // with the zero key, because the golden file must not change
)

// crawl is a crawl whose answers are set by a test.
type crawl struct {
	Located
	open []string
	err  error
}

func (c *crawl) locate(context.Context, canon.URL, string) (*Located, error) {
	return &c.Located, c.err
}

func (c *crawl) Admit(_ context.Context, keys []string) error {
	c.open = append(c.open, keys...)
	return nil
}

func (c *crawl) Admitted(_ context.Context, keys []string) ([]bool, error) {
	open := make([]bool, len(keys))
	for i, key := range keys {
		for _, one := range c.open {
			open[i] = open[i] || one == key
		}
	}
	return open, c.err
}

// sources returns the sources for a new crawl of h.example.
func sources(t testing.TB) (*crawl, *Sources) {
	t.Helper()
	c := &crawl{open: []string{"h.example"}, Located: Located{FPR: 1e-6}}
	canonicalizer, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c, &Sources{Canon: canonicalizer, Scope: c, Fingerprint: hasher.Fingerprint, Locate: c.locate, Now: now, Rules: follow.Default(now)}
}

func idOf(url string) string {
	print := hasher.Fingerprint(url)
	return hex.EncodeToString(print[:8])
}

func referrerTo(url string) frontier.Referrer { return frontier.ReferrerOf(hasher.Fingerprint(url)) }

// trailOf returns a function for Located.Trail. The referrer of each record is the next
// record.
func trailOf(records ...record.Record) func(string) ([]record.Record, error) {
	for i := range records {
		records[i].ID, records[i].FetchedAt = idOf(records[i].URL), now.Add(-time.Hour)
		if i+1 < len(records) {
			records[i].ReferrerID = idOf(records[i+1].URL)
		}
	}
	return func(id string) ([]record.Record, error) {
		for i := range records {
			if records[i].ID == id {
				return records[i:], nil
			}
		}
		return nil, nil
	}
}

func robotsOf(fetched time.Time, answers ...int) func() (*robots.State, error) {
	state := new(robots.State)
	for _, status := range answers {
		if status == 0 {
			state.Failed(fetched, "dial tcp 192.0.2.1:443: connect: connection refused")
			continue
		}
		state.Answered(fetched, status, []byte("User-agent: *\nDisallow: /private\nAllow: /private/open\n"), "crawler", 0)
	}
	return func() (*robots.State, error) { return state, nil }
}

func queueOf(ahead, waiting uint64, delay time.Duration) *Queue {
	return &Queue{ahead, waiting, human.Seconds(delay)}
}

func exactly(rules ...exact.Rule) *exact.Rules {
	all, err := exact.NewRules(rules...)
	if err != nil {
		panic(err)
	}
	return all
}

func addressOf(err error) func(context.Context, string) error {
	return func(context.Context, string) error { return err }
}

// hosts are the hosts of h.example that the crawl visits.
type hosts []string

func (p hosts) Reserve(context.Context, []frontier.QuotaKey, uint64) ([]bool, error) {
	panic("an explanation adds no host")
}

func (p hosts) Reserved(_ context.Context, group, key string) (bool, uint64, error) {
	return slices.Contains(p, key) && group == "h.example", uint64(len(p)), nil
}

const (
	root = "https://h.example/"
	list = "https://h.example/list"
	page = "https://h.example/page"
)

// explanations has a case for each kind of explanation.
var explanations = []struct {
	name, raw string
	set       func(c *crawl, s *Sources)
}{
	{"refused: malformed", "http://a..b/", nil},
	{"refused: scheme", " ftp://me:secret@h.example/", nil},
	{"refused: too long", "https://h.example/" + strings.Repeat("a", 9<<10), nil},
	{"refused: a password is not shown", "HTTPS://me:secret@h.example:x/", nil},
	{"refused: scope host", "https://www.h.example/page", nil},
	{"refused: scope subdomains", "https://a.other.example/page", func(_ *crawl, s *Sources) { s.Rules.Scope = canon.ScopeSubdomains }},
	{"refused: scope domain", "https://a.b.other.example/page", func(_ *crawl, s *Sources) { s.Rules.Scope = canon.ScopeDomain }},
	{"refused: port", "https://h.example:25/", func(_ *crawl, s *Sources) {
		s.CheckPort = func(string) error { return &get.PortError{Port: 25} }
	}},
	{"would be queued: another port", "https://h.example:8443/", func(_ *crawl, s *Sources) {
		s.CheckPort = func(string) error { return nil }
	}},
	{"refused: exclude", page, func(_ *crawl, s *Sources) {
		s.Rules.Exclude = []*regexp.Regexp{regexp.MustCompile(`\.pdf$`), regexp.MustCompile(`/pag.$`)}
		s.Rules.Include = []*regexp.Regexp{regexp.MustCompile(`/page`)}
	}},
	{"refused: longer than a trap's limit", "https://h.example/" + strings.Repeat("a", 3<<10), nil},
	{"refused: repeats itself", "https://h.example/a/b/a/b/a/b/a/b/a/b", nil},
	{"refused: a calendar", "https://h.example/cal/2061/02", nil},
	{"refused: hosts of its domain", "https://c.h.example/", func(_ *crawl, s *Sources) {
		s.Rules.Scope, s.Rules.MaxHosts, s.Quota = canon.ScopeSubdomains, 2, hosts{"a.h.example", "h.example"}
	}},
	{"would be queued: room for its host", "https://c.h.example/", func(_ *crawl, s *Sources) {
		s.Rules.Scope, s.Rules.MaxHosts, s.Quota = canon.ScopeSubdomains, 3, hosts{"a.h.example", "h.example"}
	}},
	{"would be queued: one of the hosts of its domain", page, func(_ *crawl, s *Sources) {
		s.Rules.Scope, s.Rules.MaxHosts, s.Quota = canon.ScopeDomain, 2, hosts{"a.h.example", "h.example"}
	}},
	{"refused: include", page, func(_ *crawl, s *Sources) { s.Rules.Include = []*regexp.Regexp{regexp.MustCompile(`/docs/`)} }},
	{"refused: depth, seeds only", page, func(_ *crawl, s *Sources) { s.Rules.MaxDepth = 0 }},
	{"refused: depth before scope", "https://other.example/", func(_ *crawl, s *Sources) { s.Rules.MaxDepth = 0 }},
	{"refused: by a rule that Rules does not know", page, func(c *crawl, _ *Sources) {
		c.More = []Check{{Rule: "max per host", Answer: follow.Refuses, Reason: frontier.ReasonHostLimit, Words: "h.example has 500 URLs (--max-per-host 500)"}}
	}},
	{"refused: blocked", page, func(c *crawl, _ *Sources) { c.More = blocked }},
	{"done: blocked", page, func(c *crawl, _ *Sources) {
		c.InFilter, c.State, c.Outcome, c.Status.Status, c.More = true, frontier.Done, frontier.OK, 200, blocked
	}},
	{"failed: blocked", page, func(c *crawl, _ *Sources) {
		c.InFilter, c.State, c.Outcome, c.More = true, frontier.Failed, frontier.Network, blocked
	}},
	{"seen: a false positive", page, func(c *crawl, _ *Sources) {
		c.InFilter = true
		c.Layers = []Layer{{false, 0.5, 9e-7}, {true, 0.25, 1e-7}}
	}},
	{"seen: given as known", page, func(c *crawl, _ *Sources) { c.InFilter, c.Given = true, 1000 }},
	{"would be queued", "h.example/Page?utm_source=x&a=1#top", func(c *crawl, _ *Sources) { c.Queue = queueOf(0, 0, 0) }},
	{"would be queued: in scope by its parent", "https://a.b.h.example/", func(c *crawl, s *Sources) {
		s.Rules.Scope, c.Queue = canon.ScopeSubdomains, queueOf(12, 12, 0)
	}},
	{"would be queued: anywhere, by an include", page, func(_ *crawl, s *Sources) {
		s.Rules.Scope, s.Rules.Include = canon.ScopeAny, []*regexp.Regexp{regexp.MustCompile(`/docs/`), regexp.MustCompile(`/page`)}
		s.Scope = nil
	}},
	{"would be queued: if not too deep", page, func(_ *crawl, s *Sources) {
		s.Rules.MaxDepth, s.Rules.Exclude = 3, []*regexp.Regexp{regexp.MustCompile(`\.pdf$`)}
	}},
	{"would be queued: robots.txt not fetched", page, func(c *crawl, _ *Sources) { c.Robots = robotsOf(now) }},
	{"would be queued: robots.txt disallows", "https://h.example/private/x", func(c *crawl, _ *Sources) { c.Robots = robotsOf(now.Add(-time.Hour), 200) }},
	{"would be queued: robots.txt allows by a rule", "https://h.example/private/open", func(c *crawl, _ *Sources) { c.Robots = robotsOf(now.Add(-time.Hour), 200) }},
	{"would be queued: robots.txt says nothing of it", page, func(c *crawl, _ *Sources) { c.Robots = robotsOf(now.Add(-25*time.Hour), 200) }},
	{"would be queued: robots.txt missing", page, func(c *crawl, _ *Sources) { c.Robots = robotsOf(now.Add(-time.Hour), 404) }},
	{"would be queued: robots.txt not renewed", page, func(c *crawl, _ *Sources) { c.Robots = robotsOf(now.Add(-5*time.Second), 200, 503) }},
	{"would be queued: robots.txt unavailable", page, func(c *crawl, _ *Sources) { c.Robots = robotsOf(now.Add(-5*time.Second), 503, 503) }},
	{"would be queued: robots.txt ignored", "https://h.example/private/x", func(c *crawl, s *Sources) {
		c.Robots, s.IgnoreRobots = robotsOf(now, 200), func(string) bool { return true }
	}},
	{"would be queued: address", page, func(_ *crawl, s *Sources) {
		s.CheckHost = addressOf(&get.AddressError{Host: "h.example", Addr: "10.0.0.1"})
	}},
	{"queued: its host does not answer", page, func(c *crawl, _ *Sources) {
		c.Status, c.HostFailure = frontier.Status{State: frontier.Queued, HostDueIn: time.Minute}, "lookup h.example: no such host"
	}},
	{"would be queued: no address now", page, func(_ *crawl, s *Sources) { s.CheckHost = addressOf(errors.New("lookup h.example: no such host")) }},
	{"queued", page, func(c *crawl, s *Sources) {
		c.Status = frontier.Status{State: frontier.Queued, InFilter: true, HostDueIn: 1500 * time.Millisecond,
			Item: frontier.Item{Depth: 2, Priority: frontier.PriorityPage, Referrer: referrerTo(list)}}
		s.Rules.MaxDepth, c.Queue, s.CheckHost = 2, queueOf(11, 340, 0), addressOf(nil)
		c.Trail = trailOf(record.Record{URL: list}, record.Record{URL: root})
	}},
	{"queued: of a trap", "https://h.example/cal/2026/11", func(c *crawl, _ *Sources) {
		c.Status = frontier.Status{State: frontier.Queued, InFilter: true}
		c.Trap = `a trap: pages of the series https://h.example/cal/#/# say nothing new (--allow-series '^https://h\.example/cal/[\w-]+/[\w-]+' allows it)`
	}},
	{"exact by its form", page, func(_ *crawl, s *Sources) {
		s.Exact = exactly(exact.Rule{Text: "seeds"}, exact.Rule{Name: "pages", Text: "re=/page$"})
	}},
	{"exact as it may be found", page, func(_ *crawl, s *Sources) {
		s.Exact = exactly(exact.Rule{Text: "host=*.gov"}, exact.Rule{Text: "seeds"}, exact.Rule{Text: "depth<=1"})
	}},
	{"exact as it was found", page, func(c *crawl, s *Sources) {
		c.Status = frontier.Status{State: frontier.Queued, Item: frontier.Item{Depth: 1, Class: 4}}
		s.Exact = exactly(exact.Rule{Text: "depth<=1"})
	}},
	{"exact with a row", page, func(c *crawl, s *Sources) {
		c.Status, c.Row = frontier.Status{State: frontier.Done, InFilter: true, Outcome: frontier.OK, Status: 200}, new(true)
		s.Exact = exactly(exact.Rule{Text: "seeds"})
	}},
	{"exact by its form, claimed by the filter alone", page, func(c *crawl, s *Sources) {
		c.Status, c.Row = frontier.Status{State: frontier.Done, InFilter: true}, new(false)
		s.Exact = exactly(exact.Rule{Text: "re=/page$"})
	}},
	{"exact as it may be found, claimed by the filter alone", page, func(c *crawl, s *Sources) {
		c.Status, c.Row = frontier.Status{State: frontier.Done, InFilter: true}, new(false)
		s.Exact = exactly(exact.Rule{Text: "depth<=1"})
	}},
	{"promoted", page, func(c *crawl, s *Sources) {
		c.Status = frontier.Status{State: frontier.Queued, InFilter: true, Round: 3, Item: frontier.Item{Depth: 1, Class: 4, Round: 3}}
		c.Row, c.Trail = new(true), trailOf(record.Record{URL: page, Depth: 2, Round: 0})
		s.Exact = exactly(exact.Rule{Text: "depth<=1"})
	}},
	{"refused: by a version of the policy", "https://h.example/private/x", func(_ *crawl, s *Sources) {
		s.Rules.Exclude = []*regexp.Regexp{regexp.MustCompile("/private")}
		s.Since = func(setting, by string) string { return "since a change of " + setting + " " + by }
	}},
	{"not exact", page, func(c *crawl, s *Sources) {
		c.Status = frontier.Status{State: frontier.Queued, Item: frontier.Item{Depth: 1}}
		s.Exact = exactly(exact.Rule{Text: "seeds"})
	}},
	{"queued: delayed, of a page without a record", page, func(c *crawl, _ *Sources) {
		c.Status = frontier.Status{State: frontier.Queued, InFilter: true, Round: 1,
			Item: frontier.Item{Depth: 1, Hops: 1, Attempts: 2, Deliveries: 1, Round: 1, Priority: frontier.PriorityAsset, Referrer: referrerTo(list)}}
		c.Queue, c.Trail = queueOf(0, 1, 40*time.Second), trailOf()
	}},
	{"queued: in another round, beyond what the rules allow", page, func(c *crawl, s *Sources) {
		c.Status = frontier.Status{State: frontier.Queued, InFilter: true, Round: 1,
			Item: frontier.Item{Depth: 3, Hops: 6, Round: 1, Referrer: referrerTo(list)}}
		s.Rules.MaxDepth = 2
		c.Trail = trailOf(record.Record{URL: page, Depth: 3, Attempts: 4, Error: "timeout"}, record.Record{URL: root})
	}},
	{"queued: disallowed since", "https://h.example/private/x", func(c *crawl, _ *Sources) {
		c.Status = frontier.Status{State: frontier.Queued, InFilter: true}
		c.Robots = robotsOf(now, 200)
	}},
	{"queued: robots.txt unavailable", page, func(c *crawl, _ *Sources) {
		c.Status = frontier.Status{State: frontier.Queued, InFilter: true}
		c.Robots = robotsOf(now, 0)
	}},
	{"leased", root, func(c *crawl, _ *Sources) { c.Status = frontier.Status{State: frontier.Leased, InFilter: true} }},
	{"done: ok", page, func(c *crawl, _ *Sources) {
		c.Status = frontier.Status{State: frontier.Done, InFilter: true, Outcome: frontier.OK, Status: 200, Round: 1}
		c.Trail = trailOf(record.Record{URL: page, Depth: 2, Round: 1, Attempts: 1, Bytes: 14321, LinksFound: 40, LinksAdded: 3},
			record.Record{URL: list}, record.Record{URL: root})
	}},
	{"done: redirect", root, func(c *crawl, _ *Sources) {
		c.Status = frontier.Status{State: frontier.Done, InFilter: true, Outcome: frontier.Redirect, Status: 301}
		c.Trail = trailOf(record.Record{URL: root, Attempts: 1, LinksFound: 1, RedirectTo: "https://www.h.example/"})
	}},
	{"done: robots", page, func(c *crawl, _ *Sources) {
		c.Status = frontier.Status{State: frontier.Done, InFilter: true, Outcome: frontier.Robots}
		c.Trail = trailOf(record.Record{URL: page, Depth: 1, Error: "robots.txt: Disallow: /page", ReferrerID: idOf(root)})
	}},
	{"done: address", page, func(c *crawl, _ *Sources) {
		c.Status = frontier.Status{State: frontier.Done, InFilter: true, Outcome: frontier.Address}
		c.Trail = trailOf(record.Record{URL: page, Error: "h.example is 10.0.0.1, a private address (--allow-private, or --allow-net 10.0.0.1/32)"})
	}},
	{"done: type, without records", page, func(c *crawl, _ *Sources) {
		c.Status = frontier.Status{State: frontier.Done, InFilter: true, Outcome: frontier.Type, Status: 200}
	}},
	{"failed", page, func(c *crawl, _ *Sources) {
		c.Status = frontier.Status{State: frontier.Failed, InFilter: true, Outcome: frontier.Network,
			Item: frontier.Item{Depth: 1, Attempts: 3, Priority: frontier.PriorityPage, Referrer: referrerTo(root)}}
		c.Trail = trailOf(record.Record{URL: page, Depth: 1, Attempts: 4, Error: "connect: \x1b[31mrefused"}, record.Record{URL: root})
	}},
}

// TestExplanationsGolden compares the texts with testdata/explanations.txt. -update
// writes the file again.
func TestExplanationsGolden(t *testing.T) {
	var got bytes.Buffer
	for _, tt := range explanations {
		c, s := sources(t)
		if tt.set != nil {
			tt.set(c, s)
		}
		e, err := Explain(t.Context(), *s, tt.raw)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got.WriteString("== " + tt.name + "\n")
		if len(tt.raw) > 1000 {
			e.Raw = "(too long to print)"
		}
		if _, err := e.WriteTo(&got); err != nil {
			t.Fatal(err)
		}
		got.WriteByte('\n')
	}
	golden := filepath.Join("testdata", "explanations.txt")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	wanted := strings.Split(string(want), "\n== ")
	for i, text := range strings.Split(got.String(), "\n== ") {
		if i >= len(wanted) || text != wanted[i] {
			t.Errorf("got\n%s\nwant\n%s", text, strings.Join(wanted[min(i, len(wanted)):min(i+1, len(wanted))], ""))
		}
	}
	if len(want) != got.Len() {
		t.Errorf("the explanations have %d bytes, want %d as in testdata/explanations.txt", got.Len(), len(want))
	}
}

// TestDocumentedExample: the example in the documentation is one of the golden
// texts.
func TestDocumentedExample(t *testing.T) {
	docs, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "explain.md"))
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile(filepath.Join("testdata", "explanations.txt"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(docs), "```\n")
	if len(parts) != 3 || !strings.Contains(string(golden), "\n"+parts[1]+"\n") {
		t.Errorf("the documented example is not in testdata/explanations.txt:\n%s", parts[min(1, len(parts)-1)])
	}
}

// TestEveryReason: the golden file has a case for each state and for eight reasons of a
// refusal, and contains no password.
func TestEveryReason(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "explanations.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"refused: " + string(frontier.ReasonScope), "refused: " + string(frontier.ReasonExcluded), "refused: " + string(frontier.ReasonDepth),
		"refused: " + string(frontier.ReasonHostLimit), "refused: " + string(frontier.ReasonScheme),
		"refused: " + string(frontier.ReasonMalformed), "refused: " + string(frontier.ReasonPort), "refused: " + string(frontier.ReasonTooLong),
		"seen", "would be queued", string(frontier.Queued), string(frontier.Leased), string(frontier.Done), string(frontier.Failed),
	} {
		if !strings.Contains(string(text), "\n"+want+": ") {
			t.Errorf("no explanation has a line that begins with %q", want)
		}
	}
	if strings.Contains(string(text), "secret") || strings.Contains(string(text), "\x1b") {
		t.Error("an explanation has a password or an escape sequence in it")
	}
}

func TestExplanationJSON(t *testing.T) {
	for _, tt := range explanations {
		c, s := sources(t)
		if tt.set != nil {
			tt.set(c, s)
		}
		e, err := Explain(t.Context(), *s, tt.raw)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "secret") {
			t.Errorf("%s: the JSON contains a password: %s", tt.name, text)
		}
		back := new(Explanation)
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(back); err != nil {
			t.Fatal(err)
		}
		var one, two bytes.Buffer
		_, _ = e.WriteTo(&one)
		_, _ = back.WriteTo(&two)
		if one.String() != two.String() {
			t.Errorf("%s: %s\nafter JSON: %s", tt.name, &one, &two)
		}
	}
}

func TestRedactPasswords(t *testing.T) {
	for url, want := range map[string]string{
		"https://me:secret@h/x":     "https://me:xxxxx@h/x",
		"https://:secret@h":         "https://:xxxxx@h",
		"https://me:a@b:c@h/":       "https://me:xxxxx@h/",
		` ht` + "\t" + `tp:\\m:s@h`: ` ht` + "\t" + `tp:\\m:xxxxx@h`,
		"me:secret@h/x":             "me:xxxxx@h/x",
		"https://me@h:80/a:b@c":     "https://me@h:80/a:b@c",
		"https://h:80/a:b@c?d:e@f":  "https://h:80/a:b@c?d:e@f",
		"https://h?a:b@c":           "https://h?a:b@c",
		"https://[::1]:80/a@b":      "https://[::1]:80/a@b",
	} {
		if got := redact(url); got != want {
			t.Errorf("redact(%q) = %q, want %q", url, got, want)
		}
	}
}

// TestSourcesFail: Explain returns the errors of its sources.
func TestSourcesFail(t *testing.T) {
	bad := errors.New("it is broken")
	for name, set := range map[string]func(*crawl, *Sources){
		"locate": func(c *crawl, _ *Sources) { c.err = bad },
		"robots": func(c *crawl, _ *Sources) {
			c.Robots = func() (*robots.State, error) { return nil, bad }
		},
		"trail": func(c *crawl, _ *Sources) {
			c.State = frontier.Done
			c.Trail = func(string) ([]record.Record, error) { return nil, bad }
		},
		"scope": func(_ *crawl, s *Sources) { s.Scope = &crawl{err: bad} },
	} {
		c, s := sources(t)
		set(c, s)
		if _, err := Explain(t.Context(), *s, root); !errors.Is(err, bad) {
			t.Errorf("%s: error %v, want %v", name, err, bad)
		}
	}
}

// blocked is what the policy says of a blocked URL.
var blocked = []Check{{Rule: DropRules, Answer: follow.Refuses, Reason: frontier.ReasonBlockRule, Words: "the policy blocks it: host=h.example"}}
