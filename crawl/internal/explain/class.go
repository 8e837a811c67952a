package explain

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// askClass finds the rule of --exact that applies to the URL. Some rules depend on how the URL
// was found, which the store knows only while the URL waits, and after the URL has failed. For
// other URLs, askClass applies only the rules about the form of the URL.
func (q *query) askClass(context.Context) error {
	rules := q.src.Exact
	if rules == nil {
		return nil
	}
	found := q.waits() || q.at.State == frontier.Failed
	class := q.at.Item.Class
	if !found {
		link := frontier.Offer{URL: q.out.Canonical, Depth: math.MaxUint16}
		class = rules.Class(&link, exact.ByLink)
	}
	c := &Class{Name: rules.Name(class), Rule: rules.Text(class)}
	q.out.Class = c
	if class != frontier.Bulk {
		c.Words = "yes: " + c.Rule
		if c.Name != c.Rule {
			c.Words += fmt.Sprintf(" (class %s)", c.Name)
		}
		c.Words += q.rowWords(rules.Pure(class))
		return nil
	}
	c.Words = fmt.Sprintf("no: the filter decides (--exact %s)", rules)
	if others := rulesOnDiscovery(rules); !found && len(others) > 0 {
		c.Words = fmt.Sprintf("depends on how it is found: %s (--exact %s)", strings.Join(others, " or "), rules) + q.rowWords(false)
	}
	return nil
}

// rowWords says what becomes of an exact offer of the URL that the filter claims to contain. pure says that the rule is
// about the URL itself. Then a URL without a row was never added, or its window is over.
func (q *query) rowWords(pure bool) string {
	before := q.out.Record // while the URL waits, its last record is that of an earlier round
	switch {
	case q.waits() && q.at.Item.Class != frontier.Bulk && before != nil && before.Class == "":
		return fmt.Sprintf("; it was promoted: it was bulk in round %d, and is queued once more, in round %d", before.Round, q.at.Round)
	case q.at.Row == nil:
		return ""
	case *q.at.Row:
		return "; it has a row, so it is seen when it is found again"
	case !q.at.InFilter:
		return ""
	case pure:
		q.falseClaim, q.out.Store.State = true, frontier.Unknown
		return "; it has no row (it was never queued, or its window is over), so it is queued when it is found, whatever the filter claims"
	}
	return "; it has no row, only the filter claims to know it: then it is promoted, which is to be queued once more, in a later round"
}

// rulesOnDiscovery returns the rules that depend on how a URL was found.
func rulesOnDiscovery(rules *exact.Rules) (texts []string) {
	for class := frontier.Bulk + 1; class < exact.Classes; class++ {
		if class != frontier.Sitemap && rules.Text(class) != "" && !rules.Pure(class) {
			texts = append(texts, rules.Text(class))
		}
	}
	return texts
}
