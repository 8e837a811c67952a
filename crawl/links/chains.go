package links

import (
	"iter"

	"github.com/bloomfrontier/crawler/frontier"
)

// Chain is a URL that redirects, and where that leads.
type Chain struct {
	URL     string   `json:"url"`
	Hops    int      `json:"hops"`
	Chain   []string `json:"chain"`             // begins with URL; a loop ends with a URL that the chain already contains; see Chains
	Loop    bool     `json:"loop,omitempty"`    // the chain leads back to one of its URLs
	Status  int      `json:"status,omitempty"`  // of the last URL, if it was crawled and there is no loop
	Outcome string   `json:"outcome,omitempty"` // of the last URL, under the same conditions as Status
}

// Chains yields the chains of at least minHops redirects, and also shorter ones that lead to
// themselves or to a URL that has no page. A chain begins at each URL that redirects and is
// not the target of a redirect, and at each URL of a loop. Every chain is followed to its end. If it
// has more than 1,000 hops, Chain.Chain has the first 1,000 URLs and the last one. Chains reads
// the records three times and keeps all redirects in memory, about 400 bytes each.
func (s Source) Chains(minHops int) iter.Seq2[Chain, error] {
	return func(yield func(Chain, error) bool) {
		next, ends, err := s.redirects()
		if err != nil {
			yield(Chain{}, err)
			return
		}
		way := destinations(next)
		led := make(map[string]bool) // URLs to which another URL redirects
		for from, to := range next {
			led[to.url] = led[to.url] || to.url != from
		}
		for r, err := range s.Records() {
			if err != nil {
				yield(Chain{}, err)
				return
			}
			hop, is := next[r.URL]
			if !is || hop.round != r.Round || r.Check != "" || led[r.URL] && !(way[r.URL].loop && way[r.URL].last == r.URL) {
				continue
			}
			to := way[r.URL]
			c := Chain{URL: r.URL, Hops: to.hops, Loop: to.loop}
			if !c.Loop {
				c.Status, c.Outcome = ends[to.last].status, ends[to.last].outcome
			}
			if c.Hops < minHops && !c.Loop && !frontier.Outcome(c.Outcome).IsBroken() {
				continue
			}
			c.Chain = chainOf(next, r.URL, to)
			if !yield(c, nil) {
				return
			}
		}
	}
}

// hop is the target of a URL that redirects in its last round.
type hop struct {
	round int
	url   string
}

// redirects returns the target of each URL that redirects, and the last record of each
// target.
func (s Source) redirects() (next map[string]hop, ends map[string]target, err error) {
	next, ends = make(map[string]hop), make(map[string]target)
	for r, err := range s.Records() {
		if err != nil {
			return nil, nil, err
		}
		if old, known := next[r.URL]; r.RedirectTo != "" && r.Check == "" && (!known || old.round < r.Round) {
			next[r.URL] = hop{r.Round, r.RedirectTo}
		}
	}
	for _, to := range next {
		ends[to.url] = target{round: -1}
	}
	for r, err := range s.Records() {
		if err != nil {
			return nil, nil, err
		}
		r.Round = max(roundOf(&r), 0) // a check is as good as none of the later rounds
		if old, wanted := ends[r.URL]; wanted && old.round < r.Round {
			ends[r.URL] = target{round: r.Round, status: r.Status, outcome: r.Outcome, why: r.Error}
		}
		if old, known := next[r.URL]; known && old.round < r.Round {
			delete(next, r.URL) // it does not redirect any more
		}
	}
	return next, ends, nil
}

// destination says where the redirects of a URL lead.
type destination struct {
	hops int
	last string // the URL after the last hop; in a loop, the first URL that the chain contains twice
	loop bool
}

// destinations returns the destination of each URL that redirects. It follows each redirect once.
func destinations(next map[string]hop) map[string]destination {
	found := make(map[string]destination, len(next))
	path, place := []string(nil), make(map[string]int) // the URLs on the way, and their places in it
	for start := range next {
		path = path[:0]
		clear(place)
		url := start
		for ; ; url = next[url].url {
			_, known := found[url]
			_, redirects := next[url]
			_, again := place[url]
			if known || !redirects || again {
				break
			}
			place[url] = len(path)
			path = append(path, url)
		}
		to, known := found[url]
		if !known {
			to = destination{last: url}
		}
		if first, loop := place[url]; loop {
			for _, member := range path[first:] {
				found[member] = destination{len(path) - first, member, true}
			}
			path, to = path[:first], found[url]
		}
		for i := len(path) - 1; i >= 0; i-- {
			to.hops++
			found[path[i]] = to
		}
	}
	return found
}

// maxListed is the maximum number of URLs that a chain lists, apart from the last one.
const maxListed = 1000

// chainOf returns the URLs of a chain, from its first URL.
func chainOf(next map[string]hop, url string, to destination) []string {
	chain := make([]string, 0, min(to.hops, maxListed)+1)
	for range min(to.hops, maxListed) {
		chain = append(chain, url)
		url = next[url].url
	}
	return append(chain, to.last)
}
