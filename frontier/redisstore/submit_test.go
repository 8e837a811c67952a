package redisstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/exact/exacttest"
	"github.com/bloomfrontier/crawler/internal/suite"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// chunkLines are lines of several partitions. Every fifth URL occurs twice, the second time at the end.
func chunkLines(from, to int) (lines []frontier.Line) {
	var copies []frontier.Line
	for n := from; n < to; n++ {
		l := frontier.Line{Offer: frontier.Offer{URL: fmt.Sprintf("https://h%d.test/%d", n%7, n), Host: fmt.Sprintf("h%d.test", n%7), Class: frontier.Exact, Submission: "k"}}
		lines = append(lines, l)
		if n%5 == 0 {
			copies = append(copies, l)
		}
	}
	return append(append(lines, copies...), frontier.Line{Refused: frontier.ReasonMalformed})
}

func testChunk(n byte) frontier.Chunk {
	return frontier.Chunk{ID: [32]byte{n}, Digest: [32]byte{n}, TTL: time.Hour}
}

// answerLetters has the first letter of each answer.
func answerLetters(verdicts []frontier.Verdict) (text string) {
	for _, v := range verdicts {
		text += v.Answer.String()[:1]
	}
	return text
}

// TestSubmissionCrashes ends a submission at each of its steps. Until it is repeated, a worker finishes some of its URLs, another client
// offers all of them, or a forwarder queues them. The repeat has the answers of a submission without a crash, unless another client's
// offer came before the crash, and nothing is queued or counted twice.
func TestSubmissionCrashes(t *testing.T) { // not parallel: crash.Hook is for the whole process
	server := servers.Redis(t, servers.RedisOptions{})
	at := redis.UniversalOptions{Addrs: []string{server.Addr()}}
	const urls, before = 60, 10
	lines := chunkLines(0, urls)
	want := strings.Repeat("s", before) + strings.Repeat("a", urls-before) + strings.Repeat("s", urls/5) + "r"
	points := []string{"", "chunk begun", "half", "offered", "chunk answered"}
	for _, withSet := range []bool{false, true} {
		for _, point := range append(points, "decided", "marked") {
			for _, meanwhile := range []string{"nothing", "worker", "forwarder"} {
				if !withSet && (point == "decided" || point == "marked" || meanwhile == "forwarder") {
					continue
				}
				t.Run(fmt.Sprintf("set=%t/%s/%s", withSet, cmp.Or(point, "none"), meanwhile), func(t *testing.T) {
					clock := suite.NewClock()
					opt := frontiertest.Options{Now: clock.Now, LeaseTTL: 30 * time.Second, Output: noOutput{}}
					cfg := suiteConfig(at, 4, opt)
					open := func() crawl { return openAgain(t, cfg) }
					var set *exacttest.Memory
					if withSet {
						set = exacttest.NewMemory(exacttest.Options{Now: clock.Now})
						open = func() crawl { return openWithSet(t, cfg, opt, set) }
					}
					c := open()
					for _, l := range lines[:before] {
						if v, err := c.Add(t.Context(), []frontier.Offer{l.Offer}); err != nil || v[0].Answer != frontier.Added {
							t.Fatal(v, err)
						}
					}
					if point == "half" {
						call := c.chunkCall(testChunk(1))
						verdicts := make([]frontier.Verdict, len(lines))
						if _, _, err := call.begin(t.Context(), []byte(strings.Repeat("-", len(lines)-1)+"r\x09malformed")); err != nil {
							t.Fatal(err)
						}
						half := []int{0, 3, before, before + 1, urls - 1}
						if _, err := call.decide(t.Context(), lines, half, map[int]int{0: 1, before: 1}, verdicts); err != nil {
							t.Fatal(err)
						}
					} else {
						crashAt(t, point, func() { _, _, _ = c.Submit(t.Context(), testChunk(1), lines) })
					}
					c = open()
					switch meanwhile {
					case "worker":
						endEverything(t, c)
					case "forwarder":
						clock.Advance(2 * time.Minute)
						f := exact.Forwarder{Client: c.cfg.Exact, Queue: c, Host: func(url string) (string, error) {
							host, _, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
							return host, nil
						}}
						if err := f.Tidy(t.Context()); err != nil {
							t.Fatal(err)
						}
						endEverything(t, c)
					}
					for n := range 3 {
						c = open()
						got, repeated, err := c.Submit(t.Context(), testChunk(1), lines)
						if err != nil || answerLetters(got) != want || repeated != (n > 0 || point == "" || point == "chunk answered") {
							t.Fatalf("call %d: answers\n%s, repeated %t, %v, want\n%s", n, answerLetters(got), repeated, err, want)
						}
						endEverything(t, c)
					}
					stats, err := c.Stats(t.Context())
					if err != nil || stats.Balance() != nil || stats.Added != urls || stats.Done != urls || stats.Records != urls {
						t.Errorf("the books are %+v, %v", stats.Books, err)
					}
					if found := uint64(urls + before + urls/5); meanwhile != "forwarder" && stats.Found != found {
						t.Errorf("%d URLs were found, want %d", stats.Found, found)
					}
				})
			}
		}
	}
}

type died struct{}

// crashAt calls a function, which ends when it reaches a crash point.
func crashAt(t *testing.T, point string, call func()) {
	t.Helper()
	crash.Hook(func(at string) {
		if at == point {
			panic(died{})
		}
	})
	defer crash.Hook(nil)
	defer func() {
		if fault := recover(); fault != nil && fault != (died{}) {
			panic(fault)
		} else if fault == nil && point != "" {
			t.Errorf("the crash point %q was not reached", point)
		}
	}()
	call()
}

type noOutput struct{}

func (noOutput) Sync() (frontier.Position, error) { return nil, nil }

// endEverything completes everything that waits.
func endEverything(t *testing.T, c crawl) {
	t.Helper()
	for n := byte(0); ; n++ {
		id := frontier.LeaseID{1: n}
		copy(id[2:], fmt.Sprint(time.Now().UnixNano()))
		grant, err := c.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{id}})
		if err != nil {
			t.Fatal(err)
		}
		if len(grant.Leases) == 0 {
			return
		}
		var done []frontier.Completion
		for _, it := range grant.Leases[0].Items {
			done = append(done, frontier.Completion{Item: it.Fingerprint, Outcome: frontier.OK, Status: 200, Record: func(frontier.LinkCounts) error { return nil }})
		}
		if c.cfg.Exact != nil {
			var ends []exact.Finished
			for _, it := range grant.Leases[0].Items {
				ends = append(ends, exact.Finished{Ref: exact.Ref{Fingerprint: it.Fingerprint, Round: it.Round}, Class: it.Class, Outcome: frontier.OK, Status: 200})
			}
			c.cfg.Exact.End(ends)
		}
		if err := c.Complete(t.Context(), grant.Leases[0].ID, done, frontier.HostUpdate{End: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSubmissionsExpire: each key of a chunk expires, no call makes it expire earlier, and a repeat while some of them have expired queues nothing
// twice.
func TestSubmissionsExpire(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	c := openCrawl(t, redis.UniversalOptions{Addrs: []string{server.Addr()}}, 4, frontiertest.Options{Now: time.Now, Output: noOutput{}}).(crawl)
	lines := chunkLines(0, 50)
	before := keysNow(t, c)
	first, _, err := c.Submit(t.Context(), testChunk(1), lines)
	if err != nil {
		t.Fatal(err)
	}
	var expiring []string
	for _, key := range keysNow(t, c) {
		ttl := c.client.PTTL(t.Context(), key).Val()
		if ttl > 0 {
			expiring = append(expiring, key)
			if ttl > time.Hour || ttl < 50*time.Minute {
				t.Errorf("%q expires in %v, want 1h", key, ttl)
			}
		} else if slices.Contains([]string{"n", "v"}, keyLetter(key)) && !slices.Contains(before, key) {
			t.Errorf("%q does not expire", key)
		}
	}
	used := make(map[*partition]bool)
	for _, l := range lines[:50] {
		used[c.partition(l.Host)] = true
	}
	if len(expiring) != len(used)+1 {
		t.Errorf("%d keys expire, want one of each of %d partitions and the answer: %q", len(expiring), len(used), expiring)
	}
	short := testChunk(1)
	short.TTL = time.Minute
	for _, key := range expiring {
		if keyLetter(key) == "v" {
			c.client.Del(t.Context(), key)
			break
		}
	}
	if got, repeated, err := c.Submit(t.Context(), testChunk(1), lines); err != nil || !repeated || !slices.Equal(got, first) {
		t.Errorf("without the verdicts of a partition: %v, repeated %t, %v", got, repeated, err)
	}
	for _, key := range expiring {
		if keyLetter(key) == "n" {
			c.client.Del(t.Context(), key)
		}
	}
	got, repeated, err := c.Submit(t.Context(), short, lines)
	if err != nil || repeated || !strings.Contains(answerLetters(got), "a") || !strings.Contains(answerLetters(got), "s") {
		t.Errorf("without the answer and the verdicts of a partition: %v, repeated %t, %v", got, repeated, err)
	}
	for _, key := range expiring {
		if ttl := c.client.PTTL(t.Context(), key).Val(); keyLetter(key) == "v" && ttl > 0 && ttl < 50*time.Minute && ttl > time.Minute {
			t.Errorf("%q expires in %v after a shorter repeat", key, ttl)
		}
	}
	if stats, err := c.Stats(t.Context()); err != nil || stats.Added != 50 || stats.Queued != 50 {
		t.Errorf("the books are %+v, %v", stats.Books, err)
	}
}

// keyLetter returns the letter of a key of a partition.
func keyLetter(key string) string {
	_, rest, _ := strings.Cut(key, "}")
	return rest[:min(1, len(rest))]
}

func keysNow(t *testing.T, c crawl) []string {
	t.Helper()
	keys, err := c.client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
