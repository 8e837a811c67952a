package redisstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/redisbits"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// blockRace has a group, which decides offers together, and a filter of one block. The test
// calls the steps of the group one by one.
type blockRace struct {
	*testing.T
	group *group
	ep    *epoch
}

func newBlockRace(t *testing.T, cfg Config) *blockRace {
	t.Helper()
	cfg.Partitions, cfg.Capacity = 1, 1
	s := openStore(t, cfg)
	n, err := s.nodeOf(t.Context(), s.parts[0])
	if err != nil {
		t.Fatal(err)
	}
	ep, err := s.epochOf(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return &blockRace{t, &group{s: s, node: n}, ep}
}

// test makes the group look up one offer in the filter.
func (r *blockRace) test(offer frontier.Offer) *ask {
	r.Helper()
	s := r.group.s
	print := s.hasher.Fingerprint(offer.URL)
	a := &ask{item: offer.Item(print), print: print, host: s.hasher.Fingerprint(offer.Host), part: s.parts[0]}
	a.of = &offering{left: 1, answered: make(chan struct{})}
	tests := []redisbits.Ask{{Chain: a.part.chain(), Print: a.print}}
	if err := redisbits.NewReader(r.group.node.client).Read(r.Context(), tests); err != nil {
		r.Fatal(err)
	}
	if tests[0].Known {
		r.Fatalf("%s is known already: a false positive, one in a million", offer.URL)
	}
	a.test = &tests[0]
	r.group.unsure = append(r.group.unsure, a)
	return a
}

// add runs the script on the items that the group has tested, in one pipeline. Then the group
// asks again about the items that were not decided.
func (r *blockRace) add(ctx context.Context) {
	r.group.add(ctx, r.ep)
	for range maxAsked {
		again := r.group.later
		r.group.unsure, r.group.later = nil, nil
		if len(again) == 0 {
			return
		}
		r.group.reader = redisbits.NewReader(r.group.node.client)
		r.group.open = again
		if err := r.group.round(ctx); err != nil {
			r.Fatal(err)
		}
	}
}

// TestAddedBetweenTwoTests: a group tests two items whose bits are in one block. Between
// the two tests another worker adds the first item, so the test of the second item reads
// the first one's bits. The script must still answer that the first item is known.
func TestAddedBetweenTwoTests(t *testing.T) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	r := newBlockRace(t, cfg)
	other := openStore(t, r.group.s.cfg)
	first, second := testPages("b.test", 1, 2), testPages("a.test", 2, 3) // calls are in the order of hosts
	a := r.test(first[0])
	if verdicts := mustAdd(t, other, first); verdicts[0].Answer != frontier.Added {
		t.Fatalf("the other worker's item is answered %v, want added", verdicts[0])
	}
	b := r.test(second[0])
	r.add(t.Context())
	if a.err != nil || a.verdict.Answer != frontier.Seen {
		t.Errorf("the item that was added meanwhile: %v, %v, want seen", a.verdict, a.err)
	}
	if b.err != nil || b.verdict.Answer != frontier.Added {
		t.Errorf("the other item: %v, %v, want added", b.verdict, b.err)
	}
	if got := counter(t, r.group.s, fieldQueued); got != 2 {
		t.Errorf("%d items are queued, want 2", got)
	}
}

// TestRefusedBesideAdded: a group adds two items whose bits are in one block, and the
// script refuses the first. Only the second is known afterwards, because the script does
// not set the bits of the first.
func TestRefusedBesideAdded(t *testing.T) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Policy = policy.NewLive(&policy.Policy{MaxPerHost: 1}).Load
	for n := range 10 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			cfg.Name = fmt.Sprintf("test-%d", n)
			r := newBlockRace(t, cfg)
			if verdicts := mustAdd(t, r.group.s, testPages("a.test", 0, 1)); verdicts[0].Answer != frontier.Added {
				t.Fatalf("the first page of its host is answered %v, want added", verdicts[0])
			}
			pages := append(testPages("a.test", 1, 2), testPages("b.test", 0, 1)...)
			refused, added := r.test(pages[0]), r.test(pages[1])
			r.add(t.Context())
			if refused.verdict.Answer != frontier.Refused || added.verdict.Answer != frontier.Added {
				t.Fatalf("verdicts %v and %v, want the first refused and the second added", refused.verdict, added.verdict)
			}
			verdicts := mustAdd(t, openStore(t, r.group.s.cfg), pages)
			if verdicts[0].Answer != frontier.Refused || verdicts[1].Answer != frontier.Seen {
				t.Errorf("offered again: %v, want the first refused again and the second seen", verdicts)
			}
		})
	}
}
