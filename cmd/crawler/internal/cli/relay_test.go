package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
)

// TestRelayEnvironment: `crawler relay` reads each setting from the environment variable that
// `crawler crawl` reads, unless the setting is on the command line.
func TestRelayEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"CRAWLER_EVENTS": "-", "CRAWLER_EVENTS_RELAY": "other", "CRAWLER_EVENTS_FROM": "now", "CRAWLER_EVENTS_TYPES": "page.failed",
	} {
		t.Setenv(name, value)
	}
	for _, args := range [][]string{nil, {"--relay", "mine"}} {
		var f eventFlags
		flags := f.declare(f.addTo)
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		config, err := f.config(t.Context(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		want := "other"
		if args != nil {
			want = "mine"
		}
		if config.Name != want || !config.From.Now || config.Keep == nil {
			t.Errorf("relay %v: name %q, from now %t, a filter %t; want name %q, true, true", args, config.Name, config.From.Now, config.Keep != nil, want)
		}
	}
	t.Setenv("CRAWLER_EVENTS_FROM", "tomorrow")
	const want = `CRAWLER_EVENTS_FROM is "tomorrow", want now, a time such as `
	var f eventFlags
	f.declare(f.addTo)
	if _, err := f.config(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("relay with CRAWLER_EVENTS_FROM=tomorrow: error %v, want %q", err, want)
	}
}

// hook is a webhook. It counts how often it has accepted each event.
type hook struct {
	server *httptest.Server
	more   chan struct{} // receives a value after a request

	mu     sync.Mutex
	answer func(subject string) (status int, why string) // nil accepts all events
	took   map[string]int                                // how often each event was accepted, by id
}

func newHook(t *testing.T) *hook {
	h := &hook{took: make(map[string]int), more: make(chan struct{}, 1)}
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e struct{ ID, Subject string }
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		defer func() {
			select {
			case h.more <- struct{}{}:
			default:
			}
		}()
		if h.answer != nil {
			if status, why := h.answer(e.Subject); status != http.StatusOK {
				w.Header().Set("Retry-After", "0")
				http.Error(w, why, status)
				return
			}
		}
		h.took[e.ID]++
	}))
	t.Cleanup(h.server.Close)
	return h
}

func (h *hook) answers(answer func(subject string) (status int, why string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

// taken returns the ids of the events that h has accepted. It fails the test if h has
// accepted an event twice.
func (h *hook) taken(t *testing.T) []string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, times := range h.took {
		if times != 1 {
			t.Errorf("event %s was accepted %d times, want once", id, times)
		}
	}
	return slices.Sorted(maps.Keys(h.took))
}

// deadOf returns the dead letters of the default relay, which are events that were refused
// for ever: a map from the id of each event to the reason.
func deadOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	code, out, errs := run(t, "", "relay", "dead", "list", "--dir", dir, "--json")
	if code != exitOK {
		t.Fatalf("relay dead list: exit code %d: %s", code, errs)
	}
	reasons := make(map[string]string)
	for line := range strings.Lines(out) {
		var letter struct {
			Event  struct{ ID string }
			Reason string
		}
		if err := json.Unmarshal([]byte(line), &letter); err != nil {
			t.Fatal(err)
		}
		reasons[letter.Event.ID] = letter.Reason
	}
	return reasons
}

// TestDeadLetters: an event that a webhook refuses is kept with the newest reason, until
// the webhook accepts it or the event is discarded. The webhook accepts no event twice.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	dir, to := crawled(t, site(t), "--max-depth", "1", "http://a.test/"), newHook(t)
	refuse := func(why string) func(string) (int, string) {
		return func(subject string) (int, string) {
			if subject != "http://a.test/" && subject != "http://a.test/ok" {
				return http.StatusUnprocessableEntity, why
			}
			return http.StatusOK, ""
		}
	}
	expect := func(code int, want string, args ...string) {
		t.Helper()
		got, out, errs := run(t, "", append([]string{"relay"}, append(args, "--dir", dir)...)...)
		if got != code || !strings.Contains(out+errs, want) {
			t.Errorf("relay %q: exit code %d, want %d and %q in the output:\n%s%s", args, got, code, want, out, errs)
		}
	}
	left := func(n int, reason string) (ids []string) {
		t.Helper()
		dead := deadOf(t, dir)
		for id, why := range dead {
			if !strings.HasSuffix(why, reason) {
				t.Errorf("dead letter %s has reason %q, want it to end with %q", id, why, reason)
			}
		}
		if len(dead) != n {
			t.Fatalf("%d dead letters are left, want %d", len(dead), n)
		}
		return slices.Sorted(maps.Keys(dead))
	}
	to.answers(refuse("no such page"))
	expect(exitOK, "2 events delivered, 0 behind", "--to", to.server.URL, "--drain")
	all := len(deadOf(t, dir))
	if all < 4 {
		t.Fatalf("%d dead letters, want 4 or more", all)
	}
	left(all, "no such page")
	to.answers(refuse("not today"))
	expect(exitOK, "0 events accepted, "+strconv.Itoa(all)+" refused again, 0 not sent", "dead", "retry", "--to", to.server.URL)
	ids := left(all, "not today")
	to.answers(func(string) (int, string) { return http.StatusServiceUnavailable, "closed" })
	expect(exitFailed, "the other program is away: ", "dead", "retry", "--to", to.server.URL)
	left(all, "not today")
	to.answers(nil)
	expect(exitOK, "1 event accepted, 0 refused again, 0 not sent", "dead", "retry", "--to", to.server.URL, ids[0])
	expect(exitOK, "1 dead letter discarded", "dead", "discard", ids[1])
	left(all-2, "not today")
	expect(exitUsage, "--to is malformed, want ", "dead", "retry", "--to", "ftp://127.0.0.1/")
	expect(exitUsage, "http to example.org is readable by others", "dead", "retry", "--to", "http://example.org/")
	expect(exitUsage, dir+` has no relay "other", it has default`, "dead", "retry", "--to", to.server.URL, "--relay", "other")
	left(all-2, "not today")
	expect(exitOK, "accepted, 0 refused again, 0 not sent", "dead", "retry", "--to", to.server.URL)
	left(0, "")
	if taken := to.taken(t); len(taken) != all+1 || slices.Contains(taken, ids[1]) {
		t.Errorf("%d events were accepted, want %d: 2 at first, and all dead letters %q but the discarded %s", len(taken), all+1, ids, ids[1])
	}
	expect(exitOK, "0 events accepted, 0 refused again, 0 not sent", "dead", "retry", "--to", to.server.URL)
}

// TestSecondRelayIsRefused: a second relay of the same name ends with a message that
// another process runs the relay. After the first relay has ended, another relay of that
// name delivers the remaining events.
func TestSecondRelayIsRefused(t *testing.T) {
	t.Parallel()
	dir, to := crawled(t, site(t), "--max-depth", "1", "http://a.test/"), newHook(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"relay", "--dir", dir, "--to", to.server.URL}, strings.NewReader(""), io.Discard, io.Discard)
	}()
	<-to.more
	code, _, errs := run(t, "", "relay", "--dir", dir, "--to", to.server.URL, "--drain")
	if code != exitFailed || !strings.Contains(errs, "relay default of "+dir+": another process runs it. Stop that one, or ") {
		t.Errorf("second relay: exit code %d, want an error that another process runs the relay: %s", code, errs)
	}
	if strings.Contains(errs, "delivered, ") {
		t.Errorf("second relay: it prints how many events are left, which it has not counted: %s", errs)
	}
	stop()
	<-ended
	if code, _, errs = run(t, "", "relay", "--dir", dir, "--to", to.server.URL, "--drain"); code != exitOK {
		t.Errorf("relay after the first one has ended: exit code %d, %s", code, errs)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if len(to.took) < 6 {
		t.Errorf("%d events were accepted, want 6 or more", len(to.took))
	}
}

// TestRelayFigures: metrics, status and report show how many events each relay has not
// delivered yet. One relay runs within a crawl, and its webhook accepts no events at first.
// Another relay does not run.
func TestRelayFigures(t *testing.T) {
	t.Parallel()
	dir, to := filepath.Join(t.TempDir(), "c.crawl"), newHook(t)
	to.answers(func(subject string) (int, string) {
		if subject == "http://a.test/" {
			return http.StatusUnprocessableEntity, "no"
		}
		return http.StatusServiceUnavailable, "closed"
	})
	seeds, feed := io.Pipe()
	errs := &said{more: make(chan struct{}, 1)}
	ended := make(chan int, 1)
	began := time.Now()
	go func() {
		ended <- Run(t.Context(), []string{"crawl", "--dir", dir, "--seeds", "-", "--delay", "0", "--retries", "0", "--max-depth", "1",
			"--urls", "1000", "--admin", "0", "--events", to.server.URL, "--connect-to", "*.test=" + site(t)}, seeds, io.Discard, errs)
	}()
	base := "http://" + errs.await(t, regexp.MustCompile(`metrics on http://(127\.0\.0\.1:\d+)/metrics\n`))[1]
	_, _ = io.WriteString(feed, "http://a.test/\n")
	for idle := false; !idle; {
		st := statusOf(t, dir)
		idle = st.Stats.Done+st.Stats.Failed > 1 && st.Stats.Queued+st.Stats.Leased == 0
	}
	text, err := os.ReadFile(filepath.Join(dir, "pages.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	_, behind, _ := bytes.Cut(text, []byte("\n")) // the first record is refused
	await := func(events, size int, away float64) {
		t.Helper()
		metric := func(name string) string { return "crawler_relay_" + name + `{relay="default",worker=""}` }
		for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			got := scrape(t, base)
			seconds, right := got[metric("seconds")], got[metric("events")] == float64(events) && got[metric("bytes")] == float64(size) &&
				got[metric("dead_letters")] == 1 && got[metric("away")] == away
			if right && (seconds > 0) == (events > 0) && seconds <= time.Since(began).Seconds() {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("after a minute, want the relay's metrics to be %d events, %d bytes, 1 dead letter, away %g; got\n%v", events, size, away, got)
			}
		}
	}
	await(bytes.Count(behind, []byte("\n")), len(behind), 1)
	if st := statusOf(t, dir); len(st.Relays) != 1 || st.Relays[0].Events == 0 || !strings.Contains(st.Relays[0].Words(), "1 dead letter; the sink is away: ") {
		t.Errorf("status has the relays %+v, want one with 1 dead letter whose sink is away", st.Relays)
	}
	if code, out, errs := run(t, "", "relay", "--dir", dir, "--to", "-", "--relay", "other", "--drain"); code != exitOK || strings.Count(out, "\n") != bytes.Count(text, []byte("\n")) {
		t.Errorf("relay other: exit code %d, want an event for each record: %s%s", code, out, errs)
	}
	to.answers(nil)
	await(0, 0, 0)
	_, _ = io.WriteString(feed, "http://b.test/missing\n")
	<-to.more
	for out, until := "", time.Now().Add(time.Minute); !strings.Contains(out, "relay other: 1 event behind ("); {
		if _, out, _ = run(t, "", "relay", "status", "--dir", dir); time.Now().After(until) {
			t.Fatalf("after a minute, relay status prints %s, want 1 event behind", out)
		}
	}
	_ = feed.Close()
	if code := <-ended; code != exitOK {
		t.Fatalf("crawl: exit code %d", code)
	}
	var end report.Report
	if text, err = os.ReadFile(filepath.Join(dir, "report.json")); err == nil {
		err = json.Unmarshal(text, &end)
	}
	var words []string
	for i := range end.Relays {
		words = append(words, end.Relays[i].Title()+": "+end.Relays[i].Words())
	}
	if err != nil || len(words) != 2 || words[0] != "default: all delivered, 1 dead letter" || !strings.HasPrefix(words[1], "other: 1 event behind (") {
		t.Errorf("the report has the relays %q (%v), want default with 1 dead letter, and other with 1 event behind", words, err)
	}
}
