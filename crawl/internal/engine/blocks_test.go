package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/events/files"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestGuarded is a model of relays that read a crawl while URLs are blocked and lines erased, and continue from an older cursor, as
// after a crash. No event of a blocked URL is read. In the end, each relay that had read the event of a blocked URL has
// read that it is withdrawn, and has read all other events.
func TestGuarded(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			cfg := record.Config{Dir: t.TempDir(), RotateBytes: 2000}
			out, err := record.Open(cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			var end frontier.Position
			var rules []string
			version := &Version{}
			box := guard(Outbox{Outbox: files.New(files.Config{Dir: cfg.Dir, Source: "urn:crawler:x", End: func(context.Context) (frontier.Position, error) { return end, nil }})},
				func(context.Context) (*Version, error) { return version, nil })
			pages, blocked := 0, make(map[string]bool)
			type relay struct {
				at    events.Cursor
				saved []events.Cursor
				got   map[string]bool
				gone  map[string]bool
			}
			relays := []*relay{{got: map[string]bool{}, gone: map[string]bool{}}, {got: map[string]bool{}, gone: map[string]bool{}}}
			read := func(r *relay, limit int) bool {
				all, next, err := box.Read(t.Context(), r.at, limit)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range all {
					if e.Type == events.PageWithdrawn {
						r.gone[strings.TrimSuffix(e.ID, "-withdrawn")] = true
						if strings.Contains(string(e.Data)+e.Subject, "http") {
							t.Fatalf("the event %s names its URL: %s", e.ID, e.Data)
						}
						continue
					}
					if blocked[e.ID] {
						t.Fatalf("seed %d: the event %s of %s is read, which is blocked", seed, e.ID, e.Subject)
					}
					r.got[e.ID] = true
					r.saved = append(r.saved, e.Cursor)
				}
				more := len(all) > 0 || next != r.at
				r.at = next
				return more
			}
			for range 80 {
				r := relays[rng.IntN(len(relays))]
				switch rng.IntN(6) {
				case 0, 1: // pages are fetched
					for range 1 + rng.IntN(5) {
						_ = out.Append(&record.Record{URL: fmt.Sprintf("http://a.test/%d", pages), Host: "a.test", Outcome: "ok", ID: "0123456789abcdef", Item: bloomstore.Fingerprint{1, byte(pages)}})
						pages++
					}
					if end, err = out.Sync(); err != nil {
						t.Fatal(err)
					}
				case 2: // a URL is blocked, and perhaps erased
					if pages == 0 {
						continue
					}
					n := rng.IntN(pages)
					item := bloomstore.Fingerprint{1, byte(n)}
					next := &Version{Number: version.Number + 1, Values: frontier.Settings{}}
					rules = append(rules, fmt.Sprintf("since=%d item=%x", next.Number, item[:]))
					text, _ := json.Marshal(rules)
					next.Values[blockSetting] = string(text)
					version = next
					time.Sleep(2 * blocksEvery)
					blocked[record.EventID(item, 0)] = true
					blocks, _ := version.Blocks()
					if rng.IntN(2) == 0 {
						_, err := record.Erase(t.Context(), cfg.Dir, false, func(line []byte) uint64 {
							if _, is := record.Since(line); is {
								return 0
							}
							if rule := Blocked(&blocks, line); rule != nil {
								return rule.Since
							}
							return 0
						})
						if err != nil {
							t.Fatal(err)
						}
					}
				case 3: // a relay dies, and reads some events again
					if n := len(r.saved); n > 0 {
						r.at = r.saved[max(n-1-rng.IntN(4), 0)]
					}
				default:
					read(r, 1+rng.IntN(4))
				}
			}
			for i, r := range relays {
				for read(r, 3) {
				}
				for n := range pages {
					id := record.EventID(bloomstore.Fingerprint{1, byte(n)}, 0)
					if blocked[id] && r.got[id] && !r.gone[id] {
						t.Errorf("seed %d: relay %d had read %s, which is blocked, and it is not withdrawn", seed, i, id)
					}
					if !blocked[id] && (!r.got[id] || r.gone[id]) {
						t.Errorf("seed %d: relay %d has read %s: %t, withdrawn: %t", seed, i, id, r.got[id], r.gone[id])
					}
				}
				if lag, err := box.Lag(t.Context(), r.at); err != nil || lag.Events > 0 || lag.More {
					t.Errorf("the lag is %+v, %v", lag, err)
				}
			}
		})
	}
}

// TestLettersOfBlocked: dead letters of blocked URLs are not found, marked or sent again, also one that a running relay
// adds after the block. An event that says that the page is withdrawn is sent.
func TestLettersOfBlocked(t *testing.T) {
	version := &Version{}
	stored := new(eventstest.Progress)
	box := guard(Outbox{Progress: stored}, func(context.Context) (*Version, error) { return version, nil })
	var letters []events.DeadLetter
	for n := range 3 {
		letters = append(letters, events.DeadLetter{Event: eventstest.Event(n, 1), Reason: "no"})
	}
	gone := letters[1].Event.Withdrawn()
	letters = append(letters, events.DeadLetter{Event: gone, Reason: "no"})
	blocked := letters[1].Event
	text, _ := json.Marshal([]string{"since=1 url=" + blocked.Subject})
	version = &Version{Number: 1, Values: frontier.Settings{blockSetting: string(text)}}
	hold, err := box.Acquire(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Save(t.Context(), "c", letters); err != nil {
		t.Fatal(err)
	}
	if all, err := box.Dead(t.Context(), "r"); err != nil || len(all) != 3 {
		t.Errorf("%d letters are found, %v, want 3", len(all), err)
	}
	for _, one := range []struct {
		ids    []string
		marked int
	}{{nil, 3}, {[]string{blocked.ID}, 0}, {[]string{blocked.ID, gone.ID}, 1}} {
		if n, err := box.Resend(t.Context(), "r", one.ids...); n != one.marked || err != nil {
			t.Errorf("%q: %d letters are marked, %v, want %d", one.ids, n, err, one.marked)
		}
	}
	if done, err := events.Retry(t.Context(), box, sender(func(e *events.Event) {
		if e.ID == blocked.ID {
			t.Errorf("%s is sent", e.ID)
		}
	}), "r", blocked.ID, letters[0].Event.ID); err != nil || done.Accepted != 1 {
		t.Errorf("%+v, %v, want one letter accepted", done, err)
	}
	blocks, _ := version.Blocks()
	for _, dry := range []bool{true, false} {
		if n, err := box.DiscardBlocked(t.Context(), &blocks, dry); n != 1 || err != nil {
			t.Errorf("dry %t: %d are discarded, %v, want 1", dry, n, err)
		}
	}
	if saved, _, _ := stored.Load(t.Context(), "r"); saved.Dead != 2 {
		t.Errorf("%d letters are stored, want 2", saved.Dead)
	}
}

// sender is a sink that accepts all events.
type sender func(e *events.Event)

func (s sender) Send(_ context.Context, all []events.Event) []error {
	for i := range all {
		s(&all[i])
	}
	return make([]error, len(all))
}

func (sender) Close() error { return nil }
