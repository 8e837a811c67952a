package proofs

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestServed: clients upload overlapping lists of URLs to `crawler serve` with keys, through a proxy that cuts connections and
// drops answers, while the server is killed, and the crawl runs: in the server, or in a worker of a crawl in Redis. Each URL is
// queued once and has one record, the counts of all answers together are exact, and replays are equal. Without keys the counts are wrong.
func TestServed(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"dir", "redis", "postgres"} {
		for _, keyed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/keys=%t", kind, keyed), func(t *testing.T) {
				t.Parallel()
				timed(t, func() { proveServed(t, kind, keyed) })
			})
		}
	}
}

func proveServed(t *testing.T, kind string, keyed bool) {
	rng := rand.New(rand.NewPCG(newSeed(t), 7))
	clients, urls, kills := sized(6, 50), sized(4000, 100_000), sized(5, 100)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>a page</title>")
	}))
	defer site.Close()
	s := &serving{T: t, root: filepath.Join(t.TempDir(), "crawls"), site: site.Listener.Addr().String()}
	if kind != "dir" {
		s.place = []string{"--redis", servers.Redis(t, servers.RedisOptions{AppendOnly: true}).URL()}
	}
	if kind == "postgres" {
		s.place = append(s.place, "--postgres", servers.Postgres(t, servers.PostgresOptions{}).DSN())
	}
	s.start()
	defer s.kill()
	proxy := newLossyProxy(t, &s.address, rng.Uint64())
	direct := &uploader{T: t, url: func() string { return "http://" + s.address.Load().(string) }}
	if status, _, _ := direct.post("/v1/crawls", "made", `{"name":"web","settings":["max-depth=0","urls=1M"]}`); status != 201 {
		t.Fatalf("create: %d", status)
	}
	if !keyed {
		kills = 2
	}
	if kind != "dir" {
		defer s.work(filepath.Join(t.TempDir(), "worker"))()
	}
	var killed atomic.Int64
	var known sync.Map // all uploaded URLs
	var sum atomic.Uint64
	type done struct{ path, key, body, answer string }
	var mu sync.Mutex
	var all []done
	var working sync.WaitGroup
	for c := range clients {
		own := rand.New(rand.NewPCG(rng.Uint64(), uint64(c)))
		working.Go(func() {
			u, lost := &uploader{T: t, url: func() string { return proxy }}, false
			for round := 0; round == 0 || int(killed.Load()) < kills; round++ {
				var lines strings.Builder
				from, n := own.IntN(urls), urls/2
				if round > 0 {
					n = own.IntN(urls/20) + 1
				}
				for i := range n {
					url := fmt.Sprintf("http://h%d.test/%d", (from+i)%urls%40, (from+i)%urls)
					known.Store(url, true)
					lines.WriteString(url + "\n")
				}
				d := done{"/v1/crawls/web/uploads", fmt.Sprintf("c%d-%d", c, round), lines.String(), ""}
				for try := 0; d.answer == "" && !t.Failed(); try++ {
					if !keyed {
						d.key = fmt.Sprintf("c%d-%d-%d", c, round, try) // a client without keys: each request is another one
					}
					status, text, _ := u.post(d.path, d.key, d.body)
					switch {
					case status == 200 && !keyed && !lost:
						lost = true // its first answer, for certain; the proxy loses others by chance
					case status == 200:
						d.answer = text
					case status == 0 || status == 409 || status == 429 || status == 503 || status == 400 && strings.Contains(text, "ended early"):
						time.Sleep(20 * time.Millisecond)
					default:
						t.Errorf("upload: %d %s", status, text)
					}
				}
				var counts struct{ Added, Refused uint64 }
				if err := json.Unmarshal([]byte(d.answer), &counts); err != nil || counts.Refused > 0 {
					t.Errorf("answer %q: %v", d.answer, err)
				}
				sum.Add(counts.Added)
				mu.Lock()
				all = append(all, d)
				mu.Unlock()
			}
		})
	}
	for int(killed.Load()) < kills && !t.Failed() {
		time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond)
		s.kill()
		s.start()
		killed.Add(1)
	}
	working.Wait()
	proxied := len(all)
	want := uint64(0)
	known.Range(func(any, any) bool { want++; return true })
	figure(t, "uploads", "%d", proxied)
	figure(t, "kills", "%d", killed.Load())
	figure(t, "added", "%d of %d", sum.Load(), want)
	if !keyed {
		if sum.Load() >= want {
			t.Errorf("without keys, the answers count %d added URLs, want less than the %d that were added: the proof proves nothing", sum.Load(), want)
		}
		return
	}
	if sum.Load() != want {
		t.Errorf("the answers count %d added URLs, want %d", sum.Load(), want)
	}
	for _, d := range all[:min(len(all), 40)] {
		if status, text, replayed := direct.post(d.path, d.key, d.body); status != 200 || text != d.answer || !replayed {
			t.Errorf("replay of %s: %d %s, replayed %t, want %s", d.key, status, text, replayed, d.answer)
		}
	}
	var state struct {
		State  string
		Status struct {
			Stats struct{ Added, Queued, Leased, Records uint64 }
		}
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if err := json.Unmarshal([]byte(direct.get("/v1/crawls/web")), &state); err == nil && (state.State == "finished" || kind != "dir") && state.Status.Stats.Queued+state.Status.Stats.Leased == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the crawl does not finish: %+v", state)
		}
	}
	if state.Status.Stats.Added != want || state.Status.Stats.Records != want {
		t.Errorf("%d URLs added and %d records, want %d", state.Status.Stats.Added, state.Status.Stats.Records, want)
	}
	records := make(map[string]int)
	var lines string
	if kind == "redis" {
		lines = s.run("export", s.worker)
	} else {
		lines = direct.get("/v1/crawls/web/records/latest")
	}
	for line := range strings.Lines(lines) {
		var r struct{ URL string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		records[r.URL]++
	}
	for url, n := range records {
		if _, uploaded := known.Load(url); !uploaded || n != 1 {
			t.Errorf("%s has %d records, uploaded %t", url, n, uploaded)
		}
	}
	if uint64(len(records)) != want {
		t.Errorf("%d URLs have records, want %d", len(records), want)
	}
	s.kill()
	if kind == "dir" {
		s.run("status", "--audit", "--dir", filepath.Join(s.root, "web.crawl"))
	} else {
		s.run(append([]string{"status", "--audit", "--name", "web"}, s.place...)...)
	}
}

// serving is `crawler serve`, which is started and killed several times.
type serving struct {
	*testing.T
	root, site string
	place      []string // flags that name Redis and Postgres
	worker     string   // its directory
	cmd        *exec.Cmd
	address    atomic.Value // string
}

// run returns what a command prints. It must succeed.
func (s *serving) run(args ...string) string {
	s.Helper()
	e := command(s.T, crawlerBinary(s.T), args...).wait()
	if e.code != 0 {
		s.Errorf("crawler %s: exit code %d\n%s%s", args[0], e.code, e.stdout, e.stderr)
	}
	return e.stdout
}

// work runs a worker of the crawl in a directory, again and again because it ends when no URL is queued. The returned function waits
// until it has ended.
func (s *serving) work(dir string) (end func()) {
	s.worker = dir
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			command(s.T, crawlerBinary(s.T), append([]string{"crawl", "--name", "web", "--dir", dir, "--allow-private", "--connect-to", "*=" + s.site}, s.place...)...).wait()
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

func (s *serving) start() {
	s.Helper()
	args := []string{"serve", "--root", s.root, "--listen", "127.0.0.1:0", "--set", "allow-private=true",
		"--set", "connect-to=*=" + s.site, "--set", "delay=0s", "--set", "latency-factor=0", "--set", "domain-rate=0"}
	if len(s.place) > 2 {
		args = append(args, "--set", "sink=postgres")
	}
	s.cmd = exec.Command(crawlerBinary(s.T), append(args, s.place...)...)
	said, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	lines, all := bufio.NewScanner(said), ""
	for lines.Scan() {
		all += lines.Text() + "\n"
		if found := regexp.MustCompile(`http://(\S+)/v1/crawls`).FindStringSubmatch(lines.Text()); found != nil {
			s.address.Store(found[1])
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return
		}
	}
	s.Fatalf("crawler serve does not listen: %s", all)
}

func (s *serving) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// uploader sends requests, each on a connection of its own.
type uploader struct {
	*testing.T
	url func() string
}

var oneRequest = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Minute}

// post returns the status 0 if there was no complete answer.
func (u *uploader) post(path, key, body string) (status int, text string, replayed bool) {
	request, err := http.NewRequest("POST", u.url()+path, strings.NewReader(body))
	if err != nil {
		u.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", key)
	request.Host = "localhost"
	response, err := oneRequest.Do(request)
	if err != nil {
		return 0, "", false
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", false
	}
	return response.StatusCode, string(all), response.Header.Get("Idempotent-Replayed") == "true"
}

func (u *uploader) get(path string) string {
	response, err := oneRequest.Get(u.url() + path)
	if err != nil {
		u.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 {
		u.Fatalf("%s: %s %v", path, response.Status, err)
	}
	return string(all)
}

// newLossyProxy passes connections to the address in a value. It cuts a third of them at a random place, in the request, or
// before or in the answer. It returns its URL.
func newLossyProxy(t *testing.T, address *atomic.Value, seed uint64) string {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var connections sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		connections.Wait()
	})
	rng := rand.New(rand.NewPCG(seed, 1))
	connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			up, down := int64(1<<40), int64(1<<40)
			switch rng.IntN(6) {
			case 0:
				up = rng.Int64N(100_000)
			case 1:
				down = rng.Int64N(300)
			}
			connections.Go(func() { pass(ctx, client, address.Load().(string), up, down) })
		}
	})
	return "http://" + listener.Addr().String()
}

// pass copies at most up bytes to a server and down bytes back, and then closes both connections.
func pass(ctx context.Context, client net.Conn, address string, up, down int64) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return // the server is dead
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })()
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.CopyN(server, client, up)
		if up < 1<<40 {
			_, _ = client.Close(), server.Close()
		}
	})
	_, _ = io.CopyN(client, server, down)
	_, _ = client.Close(), server.Close()
	copying.Wait()
}

// TestServedSpeed compares, in one run, an upload of seeds to `crawler serve` with `crawler seed` from the same file, and a replay
// with the upload. At full size, the upload has at least 0.7 of the speed, and the replay takes at most 0.2 of the time.
func TestServedSpeed(t *testing.T) {
	urls := sized(20_000, 300_000)
	var lines strings.Builder
	for i := range urls {
		fmt.Fprintf(&lines, "http://h%d.test/a/page/%d.html\n", i%1000, i)
	}
	file := filepath.Join(t.TempDir(), "urls.txt")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &serving{T: t, root: filepath.Join(t.TempDir(), "crawls"), site: "127.0.0.1:1"}
	s.start()
	defer s.kill()
	u := &uploader{T: t, url: func() string { return "http://" + s.address.Load().(string) }}
	var bySeed, byUpload, byReplay time.Duration
	const rounds = 3
	for i := range rounds {
		for _, name := range []string{"seed", "upload"} {
			body := fmt.Sprintf(`{"name":"%s%d","run":false,"settings":["urls=1M"]}`, name, i)
			if status, text, _ := u.post("/v1/crawls", name+fmt.Sprint(i), body); status != 201 {
				t.Fatalf("create: %d %s", status, text)
			}
		}
		began := time.Now()
		out, err := exec.Command(crawlerBinary(t), "seed", "--dir", filepath.Join(s.root, fmt.Sprintf("seed%d.crawl", i)), "--seeds", file).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		bySeed += time.Since(began)
		path := fmt.Sprintf("/v1/crawls/upload%d/uploads", i)
		for _, took := range []*time.Duration{&byUpload, &byReplay} {
			began := time.Now()
			status, text, replayed := u.post(path, "k", lines.String())
			*took += time.Since(began)
			if status != 200 || !strings.Contains(text, fmt.Sprintf(`"added":%d,`, urls)) || replayed != (took == &byReplay) {
				t.Fatalf("upload: %d %s, replayed %t", status, text, replayed)
			}
		}
	}
	speed, replay := bySeed.Seconds()/byUpload.Seconds(), byReplay.Seconds()/byUpload.Seconds()
	figure(t, "seeds_per_second", "%.0f", float64(rounds*urls)/byUpload.Seconds())
	figure(t, "speed_of_crawler_seed", "%.2f", speed)
	figure(t, "time_of_a_replay", "%.3f", replay)
	t.Logf("%.0f seeds/s by upload, %.2f of crawler seed; a replay takes %.3f of the time", float64(rounds*urls)/byUpload.Seconds(), speed, replay)
	if *proof && (speed < 0.7 || replay > 0.2) {
		t.Errorf("the upload has %.2f of the speed of crawler seed, want 0.7 or more; a replay takes %.2f of its time, want 0.2 or less", speed, replay)
	}
}
