package cli

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/internal/human"
)

// denied returns the error of a run in which each seed was refused by its server or is forbidden by
// robots.txt. It names the seeds, what the servers answered and what can be done.
func (r *running) denied(result *report.Report) error {
	lines := []string{"no seed may be crawled:"}
	var advice []string
	for _, seed := range result.Denied.Seeds {
		lines = append(lines, "  "+human.Printable(seed.URL)+": "+deniedWords(seed))
		if help := deniedAdvice[seed.Status]; !strings.Contains(strings.Join(advice, "\n"), help) {
			advice = append(advice, help)
		}
	}
	if more := result.Denied.Count - uint64(len(result.Denied.Seeds)); more > 0 {
		lines = append(lines, fmt.Sprintf("  and %s more", human.Commas(more)))
	}
	lines = append(lines, advice...)
	if r.plan.at.Redis == nil {
		lines = append(lines, "when that has changed: "+r.plan.at.command("retry")+" --where "+shellQuote("outcome = robots or outcome = blocked or status >= 400")+", then crawl again")
	}
	return errors.New(strings.Join(lines, "\n"))
}

// deniedWords says who denies a seed.
func deniedWords(seed report.DeniedSeed) string {
	if seed.Status == 0 {
		why := strings.TrimPrefix(seed.Why, "robots.txt: ")
		return strings.TrimSuffix("forbidden by robots.txt: "+human.Printable(why), ": ")
	}
	if strings.HasPrefix(seed.Why, get.WallPrefix) {
		return human.Printable(seed.Why)
	}
	return fmt.Sprintf("the server answered %d %s", seed.Status, http.StatusText(seed.Status))
}

// deniedAdvice says what can be done about a status, or about robots.txt for 0.
var deniedAdvice = map[int]string{
	0:                       "ask the owner of the site to allow the crawler in robots.txt",
	http.StatusUnauthorized: "the page needs a login: if you have one, -H 'Authorization: …' sends it",
	http.StatusForbidden: "the server refuses the crawler: say who you are with --user-agent and --contact, " +
		"and ask the owner of the site",
	http.StatusTooManyRequests:            "the server wants fewer requests: come back later, with a longer --delay",
	http.StatusUnavailableForLegalReasons: "the server may not show the page for legal reasons, in this country at least",
}
