package cli

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// lossPages are the pages of a lossySite.
const lossPages = 120

func lossPage(n int) string { return fmt.Sprintf("http://h%d.test/p/%d", n%5, n) }

// failsAlways reports whether a page of a lossySite never has a good answer.
func failsAlways(n int) bool { return n%10 == 7 }

// lossySite serves pages on five hosts that link to each other. After the given number of
// requests, it closes the returned channel.
func lossySite(t *testing.T, after int64) (connectTo string, reached <-chan struct{}) {
	var asked atomic.Int64
	reach := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(path.Base(r.URL.Path))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		if asked.Add(1) == after {
			close(reach)
		}
		if failsAlways(n) {
			http.Error(w, "never", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for _, to := range []int{n + 1, n + 2, n + 3, 2 * n} {
			if to < lossPages {
				fmt.Fprintf(w, "<a href=%s>on</a> ", lossPage(to))
			}
		}
	}))
	t.Cleanup(server.Close)
	return "*.test=" + server.Listener.Addr().String(), reach
}

// TestRedisEmptied: Redis loses everything during a crawl. The workers end and say what to
// do. No other crawl of the same name can be created by mistake. After a rebuild, the
// counters of the crawl match its queue, filter and records ("the books balance"). If all
// URLs are exact, which means that Postgres has a row for each, the crawl ends with one record
// for each expected URL.
func TestRedisEmptied(t *testing.T) {
	flush := func(s *servers.RedisServer) error { return s.Client().FlushAll(t.Context()).Err() }
	restart := func(s *servers.RedisServer) error {
		if err := s.Kill(); err != nil {
			return err
		}
		return s.Restart() // the server keeps no files
	}
	for _, c := range []struct {
		sink, exact string
		lose        func(*servers.RedisServer) error
	}{{"jsonl", "all", flush}, {"postgres", "all", restart}, {"jsonl", "seeds", restart}} {
		t.Run("sink="+c.sink+"/exact="+c.exact, func(t *testing.T) {
			s := *seedFlag
			if s == 0 {
				s = rand.Uint64()
			}
			t.Logf("replay with -seed=%d", s)
			rng := rand.New(rand.NewPCG(s, 6))
			connectTo, reached := lossySite(t, 10+rng.Int64N(lossPages/2))
			queue := servers.Redis(t, servers.RedisOptions{})
			database := servers.Postgres(t, servers.PostgresOptions{})
			t.Chdir(t.TempDir())
			named := []string{"--redis", queue.URL(), "--name", "lost", "--postgres", database.DSN()}
			crawl := slices.Concat([]string{"crawl"}, named, []string{"--urls", "1000", "--partitions", "4", "--delay", "2ms",
				"--latency-factor", "0", "--retries", "0", "--lease-time", "2s", "--max-hosts-per-domain", "9",
				"--exact", c.exact, "--sink", c.sink, "--connect-to", connectTo})
			seeds := []string{lossPage(0), lossPage(1), lossPage(2), lossPage(3), lossPage(4)}
			var first, second bytes.Buffer
			one, two := started(&first, slices.Concat(crawl, seeds)...), started(&second, slices.Concat(crawl, seeds)...)
			select {
			case <-reached:
			case <-one:
				t.Fatalf("a worker ended before Redis lost the crawl: %s", &first)
			}
			if err := c.lose(queue); err != nil {
				t.Fatal(err)
			}
			for _, w := range []struct {
				code <-chan int
				errs *bytes.Buffer
			}{{one, &first}, {two, &second}} {
				code := <-w.code
				if errs := w.errs.String(); code != exitFailed || !strings.Contains(errs, " rebuild --redis ") {
					t.Errorf("a worker ended with exit code %d, want an error that names crawler rebuild: %s", code, errs)
				}
			}

			for _, command := range [][]string{append(crawl, seeds...), crawl, append([]string{"status"}, named...)} {
				code, _, errs := run(t, "", command...)
				if code != exitFailed || !strings.Contains(errs, "Postgres has the crawl lost on") || !strings.Contains(errs, " waited there at ") ||
					!strings.Contains(errs, " rebuild --redis ") || !strings.Contains(errs, " delete --redis ") {
					t.Errorf("%s of the lost crawl: exit code %d, want an error that names crawler rebuild and delete: %s", command[0], code, errs)
				}
			}
			out := must(t, append([]string{"rebuild"}, named...)...)
			if !strings.Contains(out, "is restored. About ") || c.exact == "all" && !strings.Contains(out, "and about 0 others are lost") || !strings.Contains(out, " queued again, 0 refused\n") {
				t.Errorf("rebuild prints %s", out)
			}
			audited := append([]string{"status", "--audit"}, named...)
			if out := must(t, audited...); !strings.Contains(out, "the books balance\n") {
				t.Errorf("audit after rebuild prints %s, want that the books balance", out)
			}
			begun := time.Now()
			if code, _, errs := run(t, "", crawl...); code != exitOK {
				t.Fatalf("crawl after the rebuild: exit code %d: %s", code, errs)
			}
			t.Logf("the resumed crawl ran for %v", time.Since(begun))
			exported := must(t, append([]string{"export"}, named...)...)
			if c.exact == "all" {
				wantPages(t, exported)
			}
			for _, url := range seeds {
				if n := recordsOf(exported)[url]; n != 1 {
					t.Errorf("the seed %s has %d records, want 1", url, n)
				}
			}
			if out := must(t, audited...); !strings.Contains(out, "the books balance\n") {
				t.Errorf("audit at the end prints %s, want that the books balance", out)
			}
			if out := must(t, append([]string{"retry"}, named...)...); c.exact == "all" && !strings.Contains(out, fmt.Sprint(lossPages/10)) {
				t.Errorf("retry prints %s, want %d failed URLs", out, lossPages/10)
			}
		})
	}
}

// TestRebuildKeepsRecordOfPromotedURL: a link is fetched as a bulk URL, which only the filter
// remembers. Then its URL is given as a seed, which is an exact URL. So it is queued once more,
// in the next round. Redis loses everything before this second request. After a rebuild, the
// URL still has the record of the first request, and gets another for the second.
func TestRebuildKeepsRecordOfPromotedURL(t *testing.T) {
	for _, sink := range []string{"jsonl", "postgres"} {
		t.Run(sink, func(t *testing.T) {
			connectTo, _ := lossySite(t, 1<<40)
			queue := servers.Redis(t, servers.RedisOptions{})
			database := servers.Postgres(t, servers.PostgresOptions{})
			t.Chdir(t.TempDir())
			named := []string{"--redis", queue.URL(), "--name", "promoted", "--postgres", database.DSN()}
			crawl := slices.Concat([]string{"crawl"}, named, []string{"--urls", "1000", "--partitions", "4", "--delay", "1ms",
				"--latency-factor", "0", "--retries", "0", "--lease-time", "2s", "--exact", "seeds", "--scope", "any",
				"--sink", sink, "--connect-to", connectTo})
			must(t, append(crawl, lossPage(100))...)
			must(t, append(append([]string{"seed"}, named...), lossPage(101))...)
			if err := queue.Client().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			must(t, append([]string{"rebuild"}, named...)...)
			audited := append([]string{"status", "--audit"}, named...)
			if out := must(t, audited...); !strings.Contains(out, "the books balance\n") {
				t.Errorf("audit after rebuild prints %s, want that the books balance", out)
			}
			must(t, crawl...)
			exported := must(t, append([]string{"export"}, named...)...)
			var rounds []string
			for line := range strings.Lines(exported) {
				if strings.Contains(line, `"`+lossPage(101)+`"`) {
					_, rest, _ := strings.Cut(line, `"round":`)
					round, _, _ := strings.Cut(rest, `,`)
					rounds = append(rounds, round)
				}
			}
			if slices.Sort(rounds); !slices.Equal(rounds, []string{"0", "1"}) {
				t.Errorf("the records of the promoted URL have the rounds %q, want 0 and 1", rounds)
			}
			if out := must(t, audited...); !strings.Contains(out, "the books balance\n") {
				t.Errorf("audit at the end prints %s, want that the books balance", out)
			}
		})
	}
}

// wantPages checks that every page of a lossySite has one record.
func wantPages(t *testing.T, exported string) {
	t.Helper()
	records := recordsOf(exported)
	for n := range lossPages {
		url := lossPage(n)
		if records[url] != 1 {
			t.Errorf("%s has %d records, want 1", url, records[url])
		}
		delete(records, url)
	}
	for url, n := range records {
		t.Errorf("%s has %d records, but is not a page of the site", url, n)
	}
}
