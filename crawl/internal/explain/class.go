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
		return nil
	}
	c.Words = fmt.Sprintf("no: the filter decides (--exact %s)", rules)
	if others := rulesOnDiscovery(rules); !found && len(others) > 0 {
		c.Words = fmt.Sprintf("depends on how it is found: %s (--exact %s)", strings.Join(others, " or "), rules)
	}
	return nil
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
