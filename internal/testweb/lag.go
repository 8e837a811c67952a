package testweb

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// A Lag says how late the server read the requests of a crawl: the lag of a request is
// the time from its start, according to the crawl's records, until the server reads it. On
// a busy machine the lag can be long. Then the gap to the next request is shorter in the
// server's log than in reality, which is not a fault of the crawl.
type Lag struct {
	Requests     int           // number of requests whose start is known
	Least, Worst time.Duration // smallest and largest lag of these requests
	Stall        time.Duration // the longest time for which the server's process did not run
}

// LagOf returns the lag that a log shows. For each URL, started has the time at which the
// crawl started its last request, by the crawl's clock.
func LagOf(log []Request, started map[string]time.Time) Lag {
	var lag Lag
	read := map[string]time.Time{} // when the server read the last request for a URL without its scheme
	for i := range log {
		r := &log[i]
		read[r.Host+r.Path] = r.Read
		lag.Stall = max(lag.Stall, r.Stall)
	}
	for url, at := range started {
		_, key, _ := strings.Cut(url, "://")
		if read[key].IsZero() {
			continue
		}
		late := read[key].Sub(at)
		if lag.Requests == 0 {
			lag.Least = late
		}
		lag.Requests, lag.Least, lag.Worst = lag.Requests+1, min(lag.Least, late), max(lag.Worst, late)
	}
	return lag
}

// ReadStarts returns, for LagOf, the field fetched_at of each URL's last record. It skips
// records with 0 attempts, because their URLs were not requested.
func ReadStarts(records io.Reader) (map[string]time.Time, error) {
	type start struct {
		URL       string
		Attempts  int
		FetchedAt time.Time `json:"fetched_at"`
	}
	started := map[string]time.Time{}
	err := decode(records, "records", func(r *start) {
		if r.Attempts > 0 {
			started[r.URL] = r.FetchedAt
		}
	})
	return started, err
}

// maxLeast is the maximum credible lag of the fastest request.
const maxLeast = 10 * time.Millisecond

// Err returns an error if even the fastest request has a lag of more than 10 ms. In
// this case the recorded starts are probably wrong, because some requests are always
// read at once.
func (l Lag) Err() error {
	if l.Least > maxLeast {
		return fmt.Errorf("every request was read at least %v after its start, want at most %v for the fastest: is the start recorded too early?", l.Least, maxLeast)
	}
	return nil
}

// Most returns an upper bound of the lag of any request: the worst known lag plus
// the longest stall of the server. The stall is added because the lag of a request for
// robots.txt is not known: no record has the start of such a request.
func (l Lag) Most() time.Duration { return l.Worst + l.Stall }

func (l Lag) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) } // the precision of times in records
	return fmt.Sprintf("%v at most from a request's start to its being read; the server stalled for up to %v", round(l.Worst), round(l.Stall))
}

// watchStalls repeatedly sleeps for a short time until ctx is done, and measures how
// much longer each sleep takes than it should. It keeps the longest such excess in
// w.stall, if that is over 1 ms.
func (w *Web) watchStalls(ctx context.Context) {
	const pause = 2 * time.Millisecond
	for slept := time.Now(); sleep(ctx, pause); slept = time.Now() {
		if late := time.Since(slept) - pause; late > max(time.Millisecond, time.Duration(w.stall.Load())) {
			w.stall.Store(int64(late))
		}
	}
}
