package cli

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// TestWebPolicyHasEveryDefault: docs/reference/web-policy.md lists each flag that
// changes how a crawl treats the web, with its default and whether it is fixed.
func TestWebPolicyHasEveryDefault(t *testing.T) {
	t.Parallel()
	type row struct {
		fixed   bool
		ofTable string
	}
	rows := make(map[string]row)
	for _, found := range regexp.MustCompile("(?m)^\\* `--([a-z-]+)`( ∗)? \\(default ([^)]*)\\):").FindAllStringSubmatch(readText(t, "docs/reference/web-policy.md"), -1) {
		if _, twice := rows[found[1]]; twice {
			t.Errorf("--%s is listed twice", found[1])
		}
		rows[found[1]] = row{found[2] != "", found[3]}
	}
	for _, sec := range new(options).newFlags() {
		sec.flags.VisitAll(func(f *pflag.Flag) {
			whole := slices.Contains([]string{"Scope", "Politeness", "Requests"}, sec.title)
			if f.Hidden || !whole && !slices.Contains(formNames, f.Name) {
				return
			}
			want := show(f)
			switch {
			case f.Name == "user-agent":
				want = "crawler/VERSION"
			case f.Name == "memory": // the default depends on the machine
				want = "an eighth of the machine's, 256MiB to 2GiB"
			case want == "":
				want = "—"
			}
			got, known := rows[f.Name]
			delete(rows, f.Name)
			if !known || got.ofTable != want {
				t.Errorf("on the page, the default of --%s is %q, want %q", f.Name, got.ofTable, want)
			}
			if fixed := slices.Contains(fixedNames, f.Name); got.fixed != fixed {
				t.Errorf("on the page, --%s is marked as fixed: %t, want %t", f.Name, got.fixed, fixed)
			}
		})
	}
	for name := range rows {
		t.Errorf("the page lists --%s, which does not change how a crawl treats the web", name)
	}
}

// TestWebPolicyHasLists: docs/reference/web-policy.md lists the parameters that are
// removed, the ports that are not requested, and the reasons for a refusal.
func TestWebPolicyHasLists(t *testing.T) {
	t.Parallel()
	page := readText(t, "docs/reference/web-policy.md")
	listed := strings.Fields(blocks(t, "docs/reference/web-policy.md", "text")[0])
	if !slices.Equal(listed, canon.DefaultStrip()) {
		t.Errorf("the page lists the parameters %v, want %v", listed, canon.DefaultStrip())
	}
	var ports []string
	for port := range 1 << 16 {
		if text := strconv.Itoa(port); get.CheckPort(text, nil) != nil {
			ports = append(ports, text)
		}
	}
	if listed := strings.Fields(blocks(t, "docs/reference/web-policy.md", "text")[1]); !slices.Equal(listed, ports) {
		t.Errorf("the page lists the ports %v, want %v", listed, ports)
	}
	for _, reason := range []frontier.Reason{
		frontier.ReasonScope, frontier.ReasonExcluded, frontier.ReasonDepth, frontier.ReasonHops, frontier.ReasonHostLimit, frontier.ReasonDomain,
		frontier.ReasonScheme, frontier.ReasonMalformed, frontier.ReasonTooLong, frontier.ReasonTooMany, frontier.ReasonNofollow,
		frontier.ReasonRepeats, frontier.ReasonParams, frontier.ReasonCalendar, frontier.ReasonPort,
	} {
		if !strings.Contains(page, "`"+string(reason)+"`") {
			t.Errorf("the page does not name the reason %s", reason)
		}
	}
}
