package redisstore

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// adderEnv is set for the process that runs TestAdderProcess. Its value, in
// JSON, says what to add.
const adderEnv = "CRAWLER_TEST_ADDER"

// addProcess is a process that adds URLs until it is done or killed.
type addProcess struct {
	Socket string
	URLs   int
	Seed   uint64
}

// racedPage returns the n-th of the URLs that all adders add.
func racedPage(n int) frontier.Offer {
	host := fmt.Sprintf("h%d.test", n%500)
	return frontier.Offer{URL: fmt.Sprintf("https://%s/page/%d", host, n), Host: host, Priority: frontier.PriorityPage}
}

const addersBatch = 200

// TestAdderProcess is the body of an adder process. It writes a line when it begins, and
// adds all URLs in a random order.
func TestAdderProcess(t *testing.T) {
	var a addProcess
	if text := os.Getenv(adderEnv); text == "" {
		t.Skip("runs only in processes that TestKilledAdders starts")
	} else if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Config{Redis: &redis.UniversalOptions{Addrs: []string{a.Socket}}, Name: "test"})
	fmt.Println("begins")
	order := rand.New(rand.NewPCG(a.Seed, 3)).Perm(a.URLs)
	work := make(chan []int)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for numbers := range work {
				items := make([]frontier.Offer, len(numbers))
				for i, n := range numbers {
					items[i] = racedPage(n)
				}
				if _, err := s.Add(t.Context(), items); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for len(order) > 0 {
		n := min(addersBatch, len(order))
		work <- order[:n]
		order = order[n:]
	}
	close(work)
	group.Wait()
}

// start starts the process and returns its output.
func (a addProcess) start(t *testing.T) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAdderProcess$")
	cmd.Env = append(os.Environ(), adderEnv+"="+string(text))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // Kill returns an error if the process has ended
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); line != "begins\n" {
		rest, _ := io.ReadAll(said)
		t.Fatalf("an adder process printed %q (%v), want the line \"begins\"", line+string(rest), err)
	}
	return cmd, said
}

// TestKilledAdders starts processes that add the same URLs, nine tenths of them known,
// and kills some of the processes. Every URL is queued once. If a kill could leave bits
// without an entry, the other processes would get the answer Seen and the URL would be
// lost.
func TestKilledAdders(t *testing.T) {
	t.Parallel()
	rng := newRand(t)
	urls, adders, within := 30_000, 6, 200*time.Millisecond
	if *proof {
		urls, adders, within = 1_000_000, 16, 20*time.Second
	}
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	cfg.Capacity = uint64(urls)
	s := openStore(t, cfg)
	for n := 0; n < urls; n += 1000 {
		var known []frontier.Offer
		for i := n; i < min(n+1000, urls); i++ {
			if i%10 != 0 {
				known = append(known, racedPage(i))
			}
		}
		mustAdd(t, s, known)
	}
	var group sync.WaitGroup
	for i := range adders {
		cmd, said := addProcess{server.Socket(), urls, rng.Uint64()}.start(t)
		kill, after := i%2 == 0, time.Duration(rng.Int64N(int64(within)))
		group.Go(func() {
			if kill {
				time.Sleep(after)
				_ = cmd.Process.Kill() // Kill returns an error if the process has ended
			}
			out, _ := io.ReadAll(said)
			if err := cmd.Wait(); err != nil && !kill {
				t.Errorf("an adder process ended with %v and printed:\n%s", err, out)
			}
		})
	}
	group.Wait()
	listed, queued := 0, make(map[string]bool, urls)
	if err := s.List(t.Context(), frontier.Queued, "", func(item frontier.Item) bool {
		listed++
		queued[item.URL] = true
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if listed != urls || len(queued) != urls {
		t.Errorf("the queue has %d items with %d different URLs, want each of %d URLs once", listed, len(queued), urls)
	}
	if stats := wantBooks(t, s); stats.Added != uint64(urls) {
		t.Errorf("%d URLs are added, want %d", stats.Added, urls)
	}
	workers, err := s.Workers(t.Context())
	if err != nil || len(workers) != adders+1 {
		t.Errorf("the crawl had %d workers (%v), want %d", len(workers), err, adders+1)
	}
}
