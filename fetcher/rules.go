package fetcher

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/extract"
	"github.com/bloomfrontier/crawler/internal/follow"
)

// linkSet collects the outlinks of one page that the rules allow, and counts the refused
// ones by reason.
type linkSet struct {
	*holding
	policy      *policy.Policy // one for all links of the page
	from        *frontier.Item
	found       exact.Found    // how the links were found
	class       frontier.Class // Sitemap if the links are sitemaps and not pages
	depth, hops int
	listing     bool        // the links are the URLs of a sitemap, and not checked if they lead out
	outside     []canon.URL // links that lead out, to be checked; see addChecks
	offers      []frontier.Offer
	bytes       int // of the URLs in offers and details
	refused     map[frontier.Reason]uint64
	details     []Refused         // the refused links, for Config.OnRefused
	openedBy    map[string]string // by host: the scope key that admits it, or "" if the host is not in scope
	inQuota     map[string]bool   // by host: whether it is within Rules.MaxHosts (see limitHosts)
	err         error             // of the store; if it is set, the links are incomplete
}

func (l *linkSet) refuse(reason frontier.Reason, n int) {
	if n == 0 {
		return
	}
	if l.refused == nil {
		l.refused = make(map[frontier.Reason]uint64)
	}
	l.refused[reason] += uint64(n)
}

func (l *linkSet) refusals() []frontier.Refusal {
	var all []frontier.Refusal
	for reason, n := range l.refused {
		all = append(all, frontier.Refusal{Reason: reason, Count: n})
	}
	return all
}

// refuseLink refuses a canonical URL because of a finding.
func (l *linkSet) refuseLink(url canon.URL, why *follow.Finding) {
	l.refuse(why.Reason, 1)
	if why.Rule == follow.Trap {
		l.tally.refusedByForm(Refused{URL: url.String(), Reason: why.Reason, Rule: why.Detail, Referrer: l.from.URL})
	}
	if l.cfg.OnRefused != nil {
		l.detail(url.String(), why.Reason, inWords(&l.policy.Rules, why))
	}
}

// refuseReference refuses a reference that cannot be queued because of err, an error of
// package canon.
func (l *linkSet) refuseReference(text string, err error) {
	l.refuse(reasonOf(err), 1)
	if l.cfg.OnRefused != nil {
		l.detail(text, reasonOf(err), err.Error())
	}
}

// addDocument adds the links of a page, or of a piece of it. The argument nofollow reports whether a header of
// the answer asks to follow no link.
func (l *linkSet) addDocument(document *extract.Page, nofollow bool) {
	l.offers = slices.Grow(l.offers, len(document.Links))
	var candidates []candidate
	for i := range document.Links {
		link := &document.Links[i]
		switch {
		case nofollow:
			l.refuseNofollow(link.URL, "X-Robots-Tag header")
		case document.Nofollow:
			l.refuseNofollow(link.URL, "robots meta tag")
		case link.Nofollow:
			l.refuseNofollow(link.URL, "rel=nofollow")
		default:
			priority := frontier.PriorityPage
			if link.Kind.Asset() {
				priority = frontier.PriorityAsset
			}
			found := l.judgeAlone(link.URL)
			if found.Answer != follow.Refuses && l.policy.Rules.BoundsHosts() {
				candidates = append(candidates, candidate{link.URL, priority})
			} else {
				l.add(link.URL, priority, found)
			}
		}
	}
	l.addCandidates(candidates)
}

func (l *linkSet) refuseNofollow(url canon.URL, rule string) {
	l.refuse(frontier.ReasonNofollow, 1)
	l.detail(url.String(), frontier.ReasonNofollow, rule)
}

// add offers a link, or refuses it if found says that the rules refuse it.
func (l *linkSet) add(url canon.URL, priority frontier.Priority, found follow.Finding) {
	switch {
	case found.Answer != follow.Refuses:
		l.push(url, priority)
	case !l.leadsOut(url, &found):
		l.refuseLink(url, &found)
	}
}

func (l *linkSet) push(url canon.URL, priority frontier.Priority) {
	offer := frontier.Offer{
		URL: url.String(), Host: l.cfg.Canon.HostKey(url), Depth: uint16(l.depth), Hops: uint8(min(l.hops, 255)),
		Priority: priority, Class: l.class, Referrer: frontier.ReferrerOf(l.from.Fingerprint),
	}
	offer.Class = l.cfg.Exact.Class(&offer, l.found)
	l.offer(offer)
}

// offer offers a URL that the other rules admit, unless one of Policy.Drop or Policy.Block selects it.
func (l *linkSet) offer(offer frontier.Offer) {
	if rule, reason := l.policy.Refusal(&offer, bloomstore.Fingerprint{}, l.cfg.Exact.Name); rule != "" {
		l.refuse(reason, 1)
		l.detail(offer.URL, reason, strings.Replace(rule, "s it: ", " ", 1))
		return
	}
	l.offers = append(l.offers, offer)
	l.bytes += len(offer.URL)
}

// judge applies all rules of the crawl to a link.
func (l *linkSet) judge(url canon.URL) follow.Finding {
	found := l.judgeAlone(url)
	if found.Answer != follow.Refuses && l.policy.Rules.BoundsHosts() {
		return l.limitHosts(url)
	}
	return found
}

// judgeAlone applies all rules except the limit of hosts, which depends on other links.
func (l *linkSet) judgeAlone(url canon.URL) follow.Finding {
	return l.ask(&follow.Link{URL: url, Depth: l.depth, Hops: l.hops})
}

// judgeSitemap applies the rules to the sitemap at url. The argument from is the URL of an index
// that lists the sitemap (listed is true), or a URL that redirects to the sitemap (listed is
// false). The sitemap may be outside the scope in two cases: both URLs have the same host, or
// an index in scope lists the sitemap. In the second case a site has named the sitemap, as a
// site names sitemaps in robots.txt.
func (l *linkSet) judgeSitemap(from, url canon.URL, listed bool) follow.Finding {
	link := follow.Link{URL: url, Hops: l.hops, Kind: follow.Sitemap}
	sameHost := url.Host() == from.Host()
	if sameHost || listed && l.ask(&follow.Link{URL: from, Kind: follow.Sitemap}).Answer != follow.Refuses {
		link.Kind = follow.Named
	}
	found := l.ask(&link)
	if found.Answer != follow.Refuses && !sameHost && l.policy.Rules.BoundsHosts() {
		return l.limitHosts(url)
	}
	return found
}

// ask applies the rules to a link. After an error of the store the linkSet is incomplete.
func (l *linkSet) ask(link *follow.Link) follow.Finding {
	found, err := l.policy.Rules.Judge(l.hard, link, l)
	l.err = cmp.Or(l.err, err)
	return found
}

// CheckPort implements follow.Crawl.
func (l *linkSet) CheckPort(port string) error { return l.cfg.Client.CheckPort(port) }

// Opened implements follow.Crawl. It asks the store once for each host.
func (l *linkSet) Opened(ctx context.Context, host string) (key string, err error) {
	key, known := l.openedBy[host]
	if known || l.err != nil {
		return key, l.err
	}
	candidates := canon.Candidates(l.policy.Rules.Scope, host)
	open, err := l.admitted(ctx, candidates)
	if err != nil {
		return "", err
	}
	if first := slices.Index(open, true); first >= 0 {
		key = candidates[first]
	}
	if l.openedBy == nil {
		l.openedBy = make(map[string]string)
	}
	l.openedBy[host] = key
	return key, nil
}

// addRedirect offers the target of a redirect. The argument from is the URL that redirects. If
// a seed redirects, the target is a seed too, and its host is added to the scope, so that a
// crawl of example.org continues at www.example.org. If a sitemap redirects, the target is a
// sitemap. If a sitemap lists a page that redirects, the target counts as listed too.
func (l *linkSet) addRedirect(from, target canon.URL) {
	switch l.from.Class {
	case frontier.Sitemap:
		l.class = frontier.Sitemap
		l.add(target, l.from.Priority, l.judgeSitemap(from, target, false))
		return
	case frontier.Listed:
		l.found = exact.BySitemap
	}
	if l.from.Priority != frontier.PrioritySeed {
		l.add(target, l.from.Priority, l.judge(target))
		return
	}
	l.found = exact.BySeed
	if found := l.ask(&follow.Link{URL: target, Hops: l.hops, Kind: follow.Named}); found.Answer == follow.Refuses {
		l.refuseLink(target, &found)
		return
	}
	keys := canon.Keys(l.policy.Rules.Scope, target)
	if l.policy.SeedsUnlimited {
		keys = append(keys, frontier.SeedHost(l.cfg.Canon.HostKey(target)))
	}
	if len(keys) > 0 {
		l.err = l.whileUnavailable(l.hard, func() error { return l.cfg.Scope.Admit(l.hard, keys) })
	}
	if l.policy.Rules.BoundsHosts() && l.err == nil {
		l.err = l.whileUnavailable(l.hard, func() error { return l.reserveSeeds(l.hard, []string{target.Host()}) })
	}
	if l.err != nil {
		return
	}
	l.push(target, frontier.PrioritySeed)
}

// ErrNotOffered reports a link that the rules of the crawl refuse.
var ErrNotOffered = errors.New("fetcher: the crawl's rules refuse the link")
