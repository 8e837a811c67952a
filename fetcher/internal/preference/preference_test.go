package preference

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/internal/extract"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// answers are the answers for train-ai, ai-use and search in short: +, - or ?.
func answers(a Answers) (short string) {
	for _, answer := range a {
		short += string("?+-"[answer])
	}
	return short
}

func TestContentUsage(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []string
		want   string
	}{
		{"refused", []string{"train-ai=n"}, "-??"},
		{"allowed", []string{"search=y"}, "??+"},
		{"all labels", []string{"train-ai=n, ai-use=y,search=y"}, "-++"},
		{"lines are joined", []string{"train-ai=n", "ai-use=n"}, "--?"},
		{"a comma at the end of a line", []string{"train-ai=n,"}, "???"},
		{"the last of a key wins", []string{"train-ai=n, train-ai=y"}, "+??"},
		{"the last of a key wins, unknown", []string{"train-ai=n, train-ai=maybe"}, "???"},
		{"parameters are ignored", []string{"train-ai=n;until=2030;x, search=y;a=b"}, "-?+"},
		{"an unknown label", []string{"train-ai=n, bots=n, x-y=5"}, "-??"},
		{"yes is no value", []string{"train-ai=yes, ai-use=no, search=y"}, "??+"},
		{"a boolean", []string{"train-ai, ai-use=?0, search=?1"}, "???"},
		{"a string", []string{`train-ai="n", search="y"`}, "???"},
		{"a number", []string{"train-ai=0, search=1"}, "???"},
		{"bytes", []string{"train-ai=:bg==:, search=y"}, "??+"},
		{"an inner list", []string{"train-ai=(n), search=y"}, "??+"},
		{"labels are case-sensitive", []string{"train-ai=n, Search=y"}, "???"},
		{"values are case-sensitive", []string{"train-ai=N, search=Y"}, "???"},
		{"no dictionary", []string{"train-ai=n; search=y=n ="}, "???"},
		{"spaces around =", []string{"train-ai = n"}, "???"},
		{"empty", []string{""}, "???"},
		{"tabs between members", []string{"train-ai=n\t,\tsearch=y"}, "-?+"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := answers(usage(test.values...)); got != test.want {
				t.Errorf("%q: %s, want %s", test.values, got, test.want)
			}
		})
	}
}

func TestContentSignal(t *testing.T) {
	for value, want := range map[string]string{
		"ai-train=no, search=yes, ai-input=yes": "-++",
		"AI-Train=NO,SEARCH=Yes":                "-?+",
		"ai-train = no":                         "-??",
		"ai-train=n, search=maybe":              "???",
		"train-ai=no":                           "???",
		"ai-train=no, ai-train=yes":             "-??",
		"ai-train=yes, ai-train=no":             "-??",
		"ai-train":                              "???",
		"use=reference, ai-input=no":            "?-?",
		"":                                      "???",
	} {
		if got := answers(signal(value)); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

// page is a page with everything that a case gives.
func page(robotsTXT, path string, header http.Header, metas ...string) *Page {
	p := &Page{Token: "crawler", Header: header, Robots: new(Lines).Read(robots.Parse([]byte(robotsTXT), "crawler").UseLines(path))}
	for i := 0; i < len(metas); i += 2 {
		p.Metas = append(p.Metas, extract.Meta{Name: metas[i], Content: metas[i+1]})
	}
	return p
}

func TestReadCombinesSources(t *testing.T) {
	const all = "User-agent: *\n"
	usage := func(value string) http.Header { return http.Header{"Content-Usage": {value}} }
	tdm := func(values ...string) http.Header { return http.Header{"Tdm-Reservation": values} }
	reserved, free := &Rule{Reservation: "1", Policy: "https://example.org/p"}, &Rule{Reservation: "0"}
	for _, test := range []struct {
		name string
		page *Page
		file *Rule
		want string
		// sources are those of the statements.
		sources string
	}{
		{name: "nothing", page: page("", "/", nil), want: "???"},
		{name: "the header refuses what robots.txt allows", page: page(all+"Content-Usage: / train-ai=y", "/a", usage("train-ai=n")),
			want: "-??", sources: "robots_content_usage header_content_usage"},
		{name: "robots.txt refuses what the header allows", page: page(all+"Content-Usage: / train-ai=n", "/a", usage("train-ai=y, search=y")),
			want: "-?+", sources: "robots_content_usage header_content_usage"},
		{name: "unknown does not undo allowed", page: page(all+"Content-Signal: search=yes", "/a", usage("search=perhaps")),
			want: "??+", sources: "robots_content_signal header_content_usage"},
		{name: "both kinds of lines", page: page(all+"Content-Usage: search=n\nContent-Signal: search=yes, ai-input=yes", "/", nil),
			want: "?+-", sources: "robots_content_signal robots_content_usage"},
		{name: "a licence is no preference", page: page("License: https://example.org/l.xml\n"+all+"Allow: /", "/", nil),
			want: "???", sources: "robots_license"},
		{name: "noai in a header", page: page("", "/", http.Header{"X-Robots-Tag": {"noindex, NOAI"}}), want: "-??", sources: "header_robots"},
		{name: "noai for another crawler", page: page("", "/", http.Header{"X-Robots-Tag": {"otherbot: noai"}}), want: "???"},
		{name: "noai in an element", page: page("", "/", nil, "robots", "noai, noimageai"), want: "-??", sources: "meta_robots"},
		{name: "noai in an element for us", page: page("", "/", nil, "Crawler", "noai"), want: "-??", sources: "meta_robots"},
		{name: "noai in an element for others", page: page("", "/", nil, "otherbot", "noai"), want: "???"},
		{name: "noimageai alone", page: page("", "/", nil, "robots", "noimageai"), want: "???", sources: "meta_robots"},

		{name: "a reservation in a header", page: page("", "/", tdm("1")), want: "--?", sources: "header_tdm_reservation"},
		{name: "no reservation in a header", page: page("", "/", tdm("0")), want: "???", sources: "header_tdm_reservation"},
		{name: "two reservations in headers", page: page("", "/", tdm("0", "1")), want: "--?", sources: "header_tdm_reservation header_tdm_reservation"},
		{name: "a reservation in an element", page: page("", "/", nil, "TDM-Reservation", " 1 ", "tdm-policy", "https://e.example/p"), want: "--?",
			sources: "meta_tdm_reservation meta_tdm_policy"},
		{name: "a reservation in the file", page: page("", "/", nil), file: reserved, want: "--?", sources: "file_tdm_reservation file_tdm_policy"},
		{name: "an element before a header", page: page("", "/", tdm("1"), "tdm-reservation", "0"), want: "???",
			sources: "meta_tdm_reservation header_tdm_reservation"},
		{name: "an element before a header, reserved", page: page("", "/", tdm("0"), "tdm-reservation", "1"), want: "--?",
			sources: "meta_tdm_reservation header_tdm_reservation"},
		{name: "a header before the file", page: page("", "/", tdm("0")), file: reserved, want: "???",
			sources: "header_tdm_reservation file_tdm_reservation file_tdm_policy"},
		{name: "a header before the file, reserved", page: page("", "/", tdm("1")), file: free, want: "--?",
			sources: "header_tdm_reservation file_tdm_reservation"},
		{name: "a value that is not valid does not count", page: page("", "/", tdm("2"), "tdm-reservation", "yes"), file: reserved, want: "--?",
			sources: "meta_tdm_reservation header_tdm_reservation file_tdm_reservation file_tdm_policy"},
		{name: "a reservation says nothing about search", page: page(all+"Content-Usage: search=y, train-ai=y", "/", tdm("1")), want: "--+",
			sources: "robots_content_usage header_tdm_reservation"},
		{name: "no reservation does not undo another source", page: page(all+"Content-Usage: train-ai=n", "/", tdm("0")), want: "-??",
			sources: "robots_content_usage header_tdm_reservation"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.page.File = test.file
			all, sum := test.page.Read()
			var sources []string
			for _, s := range all {
				sources = append(sources, s.Source)
			}
			if got := strings.Join(sources, " "); answers(sum) != test.want || got != test.sources {
				t.Errorf("%s from %q, want %s from %q", answers(sum), got, test.want, test.sources)
			}
		})
	}
}

func TestStatementHasRawValue(t *testing.T) {
	p := page("User-agent: *\nContent-Usage: /a  x-new=5, train-ai=n # why\n", "/a/b", http.Header{"Content-Usage": {"bots=n", "b=y"}})
	all, _ := p.Read()
	want := []Statement{
		{RobotsUsage, "/a x-new=5, train-ai=n", Answers{TrainAI: Refused}},
		{HeaderUsage, "bots=n, b=y", Answers{}},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
}

func TestFile(t *testing.T) {
	file, err := ParseFile([]byte(`[
		{"location": "/free/*.html$", "tdm-reservation": 0},
		{"location": "/free", "tdm-reservation": 1, "tdm-policy": "https://example.org/policy.json"},
		{"location": "no-slash", "tdm-reservation": "1"},
		{"location": "/bad", "tdm-reservation": 2},
		{"tdm-reservation": 1},
		{"location": "*.pdf", "tdm-reservation": 1}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/free/a.html": "0", "/free/a.html?q": "1", "/freedom": "1", "/no-slash/x": "1", "/bad": "", "/": "", "/x/y.pdf": "1", "/%66ree": "1",
	} {
		got := ""
		if rule := file.Find(path); rule != nil {
			got = rule.Reservation
		}
		if got != want {
			t.Errorf("%s: reservation %q, want %q", path, got, want)
		}
	}
	if rule := (*File)(nil).Find("/"); rule != nil {
		t.Errorf("a file that is not there has the rule %+v", rule)
	}
	for _, body := range []string{"", "<html>", `{"location": "/"}`, `[{"location": 5}]`, "[" + strings.Repeat(" ", MaxFile) + "]"} {
		if _, err := ParseFile([]byte(body)); err == nil {
			t.Errorf("%.40q is a tdmrep.json, want an error", body)
		}
	}
}

func TestLinesRemembersWhatTheySay(t *testing.T) {
	var lines Lines
	for i := range 3 * maxLines {
		name, value := robots.ContentUsage, "train-ai=n"
		if i%2 == 1 {
			name, value = robots.ContentSignal, "ai-train=yes"
		}
		line := robots.UseLine{Name: name, Path: "/" + strings.Repeat("a", i%150), Value: value}
		got := lines.Read([]robots.UseLine{line, line})
		if want := lineStatement(line); len(got) != 2 || got[0] != want || got[1] != want {
			t.Fatalf("line %d: %+v, want %+v twice", i, got, want)
		}
		if len(lines.known) > maxLines {
			t.Fatalf("%d lines are remembered, want at most %d", len(lines.known), maxLines)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("User-agent: *\nContent-Usage: /a train-ai=n\nContent-Signal: /b search=no", "/a", "train-ai=n;q=1", "robots", "noai", `[{"location":"/","tdm-reservation":1}]`)
	f.Fuzz(func(t *testing.T, body, path, header, name, content, file string) {
		p := page(body, path, http.Header{"Content-Usage": {header}, "X-Robots-Tag": {header}, "Tdm-Reservation": {header}}, name, content)
		if parsed, err := ParseFile([]byte(file)); err == nil {
			p.File = parsed.Find(path)
		}
		all, sum := p.Read()
		for _, s := range all {
			if sum.Combine(s.Answers) != sum {
				t.Errorf("%+v is more restrictive than the sum %s", s, answers(sum))
			}
		}
	})
}

// BenchmarkRead measures what a page costs, without the request.
func BenchmarkRead(b *testing.B) {
	const managed = "User-agent: *\nContent-Signal: search=yes,ai-train=no\nAllow: /\nContent-Usage: /shop train-ai=n\n"
	for name, p := range map[string]*Page{
		"sources=none":   page("User-agent: *\nDisallow: /cart", "/shop/1", http.Header{"Content-Type": {"text/html"}}),
		"sources=robots": page(managed, "/shop/1", http.Header{"Content-Type": {"text/html"}}),
		"sources=all": page(managed, "/shop/1", http.Header{"Content-Usage": {"train-ai=n, search=y"}, "Tdm-Reservation": {"1"}},
			"robots", "noai", "tdm-reservation", "1"),
	} {
		rules := robots.Parse([]byte(managed), "crawler")
		if name == "sources=none" {
			rules = robots.AllowAll()
		}
		b.Run(name, func(b *testing.B) {
			var lines Lines
			for b.Loop() {
				p.Robots = lines.Read(rules.UseLines("/shop/1"))
				p.Read()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
		})
	}
}
