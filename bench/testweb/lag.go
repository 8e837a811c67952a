package testweb

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Lag measures the lag of a crawl's requests: the time from the start of a request,
// according to the crawl's records, until the server reads the request. On a busy
// machine the lag can be long. Then the gap to the next request is shorter in the
// server's log than in reality, which is not a fault of the crawl. Use NewLag to make a
// Lag.
type Lag struct {
	read  map[string]time.Time // map from a URL without its scheme to the time at which the server read the last request for the URL
	lags  []time.Duration
	stall time.Duration // the maximum Request.Stall
}

// NewLag returns a Lag without requests.
func NewLag() *Lag { return &Lag{read: make(map[string]time.Time)} }

// Read adds a request of the server's log. All calls of Read must come before the
// first call of Started.
func (l *Lag) Read(r *Request) {
	l.stall = max(l.stall, r.Stall)
	if !r.Read.IsZero() {
		l.read[r.Host+r.Path] = r.Read
	}
}

// Started adds the time at which a crawl started its last request for a URL, by
// the crawl's clock.
func (l *Lag) Started(url string, at time.Time) {
	_, key, _ := strings.Cut(url, "://")
	if read, ok := l.read[key]; ok {
		l.lags = append(l.lags, read.Sub(at))
	}
}

// ReadLog calls Read for each request of a log that was written to Config.Log.
func (l *Lag) ReadLog(log io.Reader) error { return decode(log, "request log", l.Read) }

// start has the fields of a crawler's record that ReadRecords reads.
type start struct {
	URL       string
	Attempts  *int
	FetchedAt time.Time `json:"fetched_at"`
}

// ReadRecords calls Started for each record that has a fetched_at. It skips records
// with 0 attempts, because their URLs were not requested.
func (l *Lag) ReadRecords(records io.Reader) error {
	return decode(records, "records", func(r *start) {
		if !r.FetchedAt.IsZero() && (r.Attempts == nil || *r.Attempts > 0) {
			l.Started(r.URL, r.FetchedAt)
		}
	})
}

// LagFigures are what a Lag has measured.
type LagFigures struct {
	Requests             int           // number of requests whose start is known
	Least, Median, Worst time.Duration // smallest, median and largest lag of these requests
	Stall                time.Duration // the longest time for which the server's process did not run
}

// Figures returns the figures that were measured so far.
func (l *Lag) Figures() LagFigures {
	f := LagFigures{Requests: len(l.lags), Stall: l.stall}
	if f.Requests > 0 {
		slices.Sort(l.lags)
		f.Least, f.Median, f.Worst = l.lags[0], l.lags[f.Requests/2], l.lags[f.Requests-1]
	}
	return f
}

// maxLeast is the maximum credible lag of the fastest request.
const maxLeast = 10 * time.Millisecond

// Err returns an error if even the fastest request has a lag of more than 10 ms. In
// this case the recorded starts are probably wrong, because some requests are always
// read at once.
func (f LagFigures) Err() error {
	if f.Least > maxLeast {
		return fmt.Errorf("every request was read at least %v after its start, want at most %v for the fastest: is the start recorded too early?", f.Least, maxLeast)
	}
	return nil
}

// Most returns an upper bound of the lag of any request: the worst known lag plus
// the longest stall of the server. The stall is added because the lag of a request for
// robots.txt is not known: no record has the start of such a request.
func (f LagFigures) Most() time.Duration { return max(f.Worst, 0) + f.Stall }

func (f LagFigures) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) } // the precision of times in records
	return fmt.Sprintf("%v median and %v at most from a request's start to its being read; the server stalled for up to %v",
		round(f.Median), round(f.Worst), round(f.Stall))
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
