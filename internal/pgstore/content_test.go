package pgstore_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestFirst: racing callers with overlapping contents get one answer for each content, which is one of the items that showed it, and a
// second call gets the same. Crawls do not share contents.
func TestFirst(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	s, other := open(t, anyCrawl(dsn)), open(t, anyCrawl(dsn))
	const contents, callers = 200, 6
	var mu sync.Mutex
	firsts := map[frontier.Content]map[frontier.Referrer]bool{}
	var racers sync.WaitGroup
	for caller := range callers {
		racers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(caller), 1))
			for range 20 {
				var showed []frontier.ShowedBy
				for range 30 {
					showed = append(showed, frontier.ShowedBy{Content: frontier.Content{byte(rng.IntN(contents)), 1}, Item: bloomstore.Fingerprint{byte(caller), byte(rng.IntN(256))}})
				}
				first, err := s.First(t.Context(), showed)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i, by := range first {
					if firsts[showed[i].Content] == nil {
						firsts[showed[i].Content] = map[frontier.Referrer]bool{}
					}
					firsts[showed[i].Content][by] = true
				}
				mu.Unlock()
			}
		})
	}
	racers.Wait()
	for content, by := range firsts {
		if len(by) != 1 {
			t.Errorf("content %x has %d first items", content[:2], len(by))
		}
	}
	twice := []frontier.ShowedBy{{Content: frontier.Content{9, 9}, Item: bloomstore.Fingerprint{1}}, {Content: frontier.Content{9, 9}, Item: bloomstore.Fingerprint{2}}}
	for _, store := range []interface{ frontier.Contents }{s, s, other} {
		first, err := store.First(t.Context(), twice)
		must(t, err)
		if want := frontier.ReferrerOf(twice[0].Item); first[0] != want || first[1] != want {
			t.Errorf("the first items of one content are %x, want %x twice", first, want)
		}
	}
}
