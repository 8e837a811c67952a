package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// troubled serves hosts that a crawl must wait for, each for another reason.
func troubled(t *testing.T) (address string, seeds []string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		robots := r.URL.Path == "/robots.txt"
		switch r.Host {
		case "slow.test":
			if robots {
				fmt.Fprint(w, "User-agent: *\nCrawl-delay: 3000\n")
				return
			}
		case "throttled.test":
			if !robots {
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
		case "norobots.test":
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case "walled.test":
			if !robots {
				w.WriteHeader(http.StatusPaymentRequired)
				return
			}
		case "cut.test":
			if !robots {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
		}
		if robots {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<p>page")
	}))
	t.Cleanup(server.Close)
	for _, host := range []string{"done.test", "set.test", "slow.test", "throttled.test", "norobots.test", "walled.test", "cut.test"} {
		for n := range 6 {
			seeds = append(seeds, fmt.Sprintf("http://%s/%d", host, n))
		}
	}
	return strings.TrimPrefix(server.URL, "http://"), seeds
}

// TestHostsSayWhatTheyWaitFor crawls hosts that are waited for, each for another reason. The list of hosts, the status and
// what the crawl waits for name these reasons, while the crawl runs and afterwards.
func TestHostsSayWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %t", shared), func(t *testing.T) {
			t.Parallel()
			address, seeds := troubled(t)
			c := config(t, seeds...)
			s := &c.Settings
			s.ConnectTo, s.MaxCrawlDelay, s.Retries, s.Scope = []string{"*=" + address}, time.Hour, 1, "host"
			s.Hosts = []crawl.Host{{Pattern: "set.test", Delay: time.Hour}}
			if shared {
				c.Redis = &crawl.Redis{URL: servers.Redis(t, servers.RedisOptions{}).URL(), Name: "x"}
			}
			o, err := crawl.Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ran := make(chan error, 1)
			go func() { _, err := o.Run(ctx); ran <- err }()

			want := map[string]report.Host{
				"done.test":      {Done: 6, Pages: 6, Bytes: 42, DelayBy: "set"},
				"cut.test":       {Failed: 6, Pages: 6, Errors: 12, DelayBy: "set", LastError: "status 500 Internal Server Error"},
				"set.test":       {Queued: 6, DelayBy: "set", WaitsFor: report.WaitDelay},
				"slow.test":      {Queued: 6, DelayBy: "robots.txt", WaitsFor: report.WaitDelay},
				"throttled.test": {Queued: 6, Delayed: 1, Errors: 1, DelayBy: "set", WaitsFor: report.WaitBackoff, LastError: "status 429 Too Many Requests"},
				"norobots.test":  {Queued: 6, DelayBy: "set", WaitsFor: report.WaitRobots},
				"walled.test":    {Queued: 6, DelayBy: "set", WaitsFor: report.WaitBlocked},
			}
			list := func(h *crawl.Handle, q crawl.HostQuery) report.Hosts {
				t.Helper()
				hosts, err := h.Hosts(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				return hosts
			}
			differs := func(h *crawl.Handle) (wrong []string) {
				hosts := list(h, crawl.HostQuery{Sort: "pages"})
				for i := range hosts.Hosts {
					got := hosts.Hosts[i]
					w, is := want[got.Host]
					w.Host = got.Host
					sum := report.Host{Host: got.Host, Queued: got.Queued, Delayed: got.Delayed, Done: got.Done, Failed: got.Failed, Pages: got.Pages, Bytes: got.Bytes,
						Errors: got.Errors, DelayBy: got.DelayBy, WaitsFor: got.WaitsFor}
					if shared && got.Queued == 0 || w.LastError == "" {
						w.LastError = "" // Redis may have forgotten it
					} else {
						sum.LastError = got.LastError
					}
					if !is || fmt.Sprint(sum) != fmt.Sprint(w) || (got.OldestURL == "") != (got.Queued == got.Delayed) || (got.Next == nil) != (w.WaitsFor == "") {
						wrong = append(wrong, fmt.Sprintf("%+v, want %+v", got, w))
					}
				}
				if len(hosts.Hosts) != len(want) || hosts.Selected != uint64(len(want)) || hosts.Waits.Hosts != 5 {
					wrong = append(wrong, fmt.Sprintf("%d hosts, %+v, want %d", len(hosts.Hosts), hosts.Waits, len(want)))
				}
				return wrong
			}
			const line = "2 of 5 hosts wait for their delay (50m0s), 1 is backing off until "
			for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
				wrong := differs(o.Handle)
				st, err := o.Status(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(wrong) == 0 && strings.HasPrefix(st.Now, line) {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("the crawl waits for %q, want %q...; %s", st.Now, line, strings.Join(wrong, "\n"))
				}
			}
			top := list(o.Handle, crawl.HostQuery{Sort: "errors", Most: 2})
			if len(top.Hosts) != 2 || top.Hosts[0].Host != "cut.test" || top.Hosts[1].Host != "throttled.test" || top.Selected != 7 {
				t.Errorf("the hosts with the most errors are %+v", top.Hosts)
			}
			trouble := list(o.Handle, crawl.HostQuery{Trouble: true})
			if len(trouble.Hosts) != 3 {
				t.Errorf("hosts with trouble: %+v, want three", trouble.Hosts)
			}
			if one := list(o.Handle, crawl.HostQuery{Host: "done.test"}); len(one.Hosts) != 1 || one.Hosts[0].Pages != 6 {
				t.Errorf("the host done.test: %+v", one)
			}
			stop()
			if err := errors.Join(<-ran, o.Close()); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			h, err := crawl.Attach(t.Context(), c.Location())
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			if wrong := differs(h); len(wrong) > 0 {
				t.Errorf("after the run: %s", strings.Join(wrong, "\n"))
			}
			if st, err := h.Status(t.Context()); err != nil || st.Now != "no process runs it, and 5 hosts have queued URLs (crawler crawl)" {
				t.Errorf("after the run the crawl waits for %q, %v", st.Now, err)
			}
		})
	}
}
