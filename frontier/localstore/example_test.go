package localstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/localstore"
)

// This example uses the frontier with a fetcher of your own. It leases a
// host, fetches the items of the lease, and completes them with outcomes and
// links.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := localstore.Open(localstore.Config{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	urls, err := canon.New(canon.Options{})
	if err != nil {
		log.Fatal(err)
	}
	offer := func(raw string) frontier.Offer {
		url, err := urls.Parse(raw)
		if err != nil {
			log.Fatal(err)
		}
		return frontier.Offer{URL: url.String(), Host: urls.HostKey(url), Priority: frontier.PriorityPage}
	}
	ctx := context.Background()

	// Two spellings of one URL: the first is new and is queued, the second counts as seen.
	verdicts, err := store.Add(ctx, []frontier.Offer{offer("http://Example.org:80/a/../"), offer("http://example.org/#top")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(verdicts[0].Answer, verdicts[1].Answer)

	links := map[string][]string{"http://example.org/": {"http://example.org/", "http://example.net/b"}}
	for {
		var id frontier.LeaseID
		_, _ = rand.Read(id[:])
		grant, err := store.Lease(ctx, frontier.LeaseRequest{Worker: "example", IDs: []frontier.LeaseID{id}})
		if err != nil {
			log.Fatal(err)
		}
		if grant.Empty {
			break
		}
		if len(grant.Leases) == 0 {
			time.Sleep(grant.Wait) // no host is due yet
			continue
		}
		lease := grant.Leases[0]
		var done []frontier.Completion
		for _, leased := range lease.Items {
			fmt.Println("fetch", leased.URL) // your fetcher
			c := frontier.Completion{Item: leased.Fingerprint, Outcome: frontier.OK, Status: 200, Page: true}
			for _, link := range links[leased.URL] {
				c.Links = append(c.Links, offer(link))
			}
			done = append(done, c)
		}
		// Outcomes, links and the end of the lease take effect in one step.
		host := frontier.HostUpdate{Due: time.Second, Delay: time.Second, End: true}
		if err := store.Complete(ctx, lease.ID, done, host); err != nil {
			log.Fatal(err)
		}
	}
	stats, err := store.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("found %d = %d added + %d seen\n", stats.Found, stats.Added, stats.Seen)
	// Output:
	// added seen
	// fetch http://example.org/
	// fetch http://example.net/b
	// found 4 = 2 added + 2 seen
}
