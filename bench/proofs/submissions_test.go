package proofs

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestSubmissions adds overlapping lists of seeds with crawler seed --key, from several clients at once. The commands are killed, and so is
// the process that runs the crawl. Each client repeats its command until it has an answer. Then each URL is queued once, all answers together
// say of each URL once that it was added, repeats have equal answers, and the audit is clean.
func TestSubmissions(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"dir", "redis", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			submitWhileKilled(t, kind)
		})
	}
}

func submitWhileKilled(t *testing.T, kind string) {
	seed := newSeed(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<p>a page")
	}))
	t.Cleanup(web.Close)
	urls, clients, kills := sized(12_000, 100_000), sized(4, 50), int64(sized(12, 100))
	m := newTeam(t, "", rand.New(rand.NewPCG(seed, 11)))
	dir := m.workersDir
	m.name = []string{"--dir", dir}
	if kind != "dir" {
		m.name = []string{"--redis", servers.Redis(t, servers.RedisOptions{AppendOnly: true}).URL(), "--name", crawlName}
		dir = filepath.Join(m.workersDir, "first")
	}
	if kind == "postgres" {
		m.name = append(m.name, "--postgres", servers.Postgres(t, servers.PostgresOptions{}).DSN())
	}
	own := m.name
	if kind != "dir" {
		own = append(slices.Clone(own), "--dir", dir)
	}
	flags := []string{"--robots", "ignore", "--delay", "1h", "--allow-private", "--connect-to", "*=" + web.Listener.Addr().String()}
	create := slices.Concat([]string{"crawl"}, own, flags, []string{"--max-time", "1ms", "http://h0.test/first"})
	if kind != "dir" {
		create = append(create, "--partitions", "8")
	}
	if e := command(t, m.bin, create...).wait(); e.code != 0 {
		t.Fatalf("crawler crawl: exit code %d\n%s", e.code, e.stderr)
	}
	list := func(client int) string { // half of the URLs of a client are also those of the next
		var text strings.Builder
		size := urls / clients
		for n := client * size; n < (client+1)*size+size/2; n++ {
			fmt.Fprintf(&text, "http://h%d.test/%d\n", n%urls%97, n%urls)
		}
		name := filepath.Join(t.TempDir(), "urls")
		if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}

	stop := make(chan struct{})
	var running, submitting sync.WaitGroup
	running.Go(func() { // the crawl, which is killed again and again
		rng := rand.New(rand.NewPCG(seed, 12))
		for {
			p := command(t, m.bin, slices.Concat([]string{"crawl"}, own, flags)...)
			select {
			case <-time.After(time.Duration(500+rng.IntN(1500)) * time.Millisecond):
				_ = p.cmd.Process.Kill()
				p.wait()
			case <-stop:
				_ = p.cmd.Process.Kill()
				p.wait()
				return
			}
		}
	})
	var left, killed, added atomic.Int64
	left.Store(kills)
	counts := regexp.MustCompile(`^([\d,]+) seeds: ([\d,]+) added`)
	for client := range clients {
		name, rng := list(client), rand.New(rand.NewPCG(seed, 100+uint64(client)))
		submitting.Go(func() {
			answer := ""
			for done := 0; done < 3; { // two repeats after the first answer
				p := command(t, m.bin, slices.Concat([]string{"seed"}, m.name, []string{"--seeds", name, "--key", fmt.Sprintf("client-%d", client)})...)
				if done == 0 && left.Add(-1) >= 0 {
					time.Sleep(time.Duration(20+rng.IntN(600)) * time.Millisecond)
					_ = p.cmd.Process.Kill()
				}
				e := p.wait()
				if e.killed {
					killed.Add(1)
				}
				if e.code != 0 {
					if !e.killed && !strings.Contains(e.stderr, "in use") && !strings.Contains(e.stderr, "is over") {
						t.Logf("client %d: exit code %d\n%s", client, e.code, e.stderr)
					}
					continue
				}
				if done++; done == 1 {
					answer = e.stdout
				} else if e.stdout != answer || !strings.Contains(e.stderr, "an earlier command has added these seeds already") {
					t.Errorf("client %d: a repeat printed\n%s%s, want\n%s", client, e.stdout, e.stderr, answer)
				}
			}
			found := counts.FindStringSubmatch(answer)
			if found == nil {
				t.Errorf("client %d: %q", client, answer)
				return
			}
			n, _ := strconv.ParseInt(strings.ReplaceAll(found[2], ",", ""), 10, 64)
			added.Add(n)
		})
	}
	timed(t, submitting.Wait)
	close(stop)
	running.Wait()
	figure(t, "killed", "%d commands", killed.Load())
	if killed.Load() == 0 {
		t.Error("no command was killed")
	}
	stats := m.stats()
	if got, want := stats.Added, uint64(urls+1); got != want {
		t.Errorf("%d URLs were added, want %d", got, want)
	}
	if added.Load() != int64(urls) {
		t.Errorf("the answers say that %d URLs were added, want %d", added.Load(), urls)
	}
	if e := m.ask("status", "--audit"); e.code != 0 {
		t.Errorf("the audit has exit code %d:\n%s", e.code, e.stdout)
	}
	// Without a key, a client that lost the answer cannot get it again.
	name := filepath.Join(t.TempDir(), "more")
	if err := os.WriteFile(name, []byte("http://more.test/1\nhttp://more.test/2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said []string
	for range 2 {
		e := m.ask("seed", "--seeds", name)
		said = append(said, strings.TrimSpace(e.stdout))
	}
	if want := []string{"2 seeds: 2 added, 0 known, 0 refused", "2 seeds: 0 added, 2 known, 0 refused"}; !slices.Equal(said, want) {
		t.Errorf("without a key, two commands print %q, want %q", said, want)
	}
}
