package report

import "github.com/bloomfrontier/crawler/fetcher"

// Board is the state of a crawl for displays that are refreshed each second. Its parts are counters, sketches of bounded
// size and samples. Unlike Status and Report, it has nothing for which the store reads whole tables: Status.Exact is nil.
// The state of the filter can be some seconds old.
type Board struct {
	Status Status  `json:"status"`
	Report *Report `json:"report"`
	Pace   *Pace   `json:"pace,omitempty"` // nil means that the process that answers does not run the crawl
	// Silent is the time in seconds for which the store has not answered; 0 means that it answers.
	Silent float64 `json:"silent_seconds,omitempty"`
	Store  string  `json:"store,omitempty"` // name of the store that can be silent, such as Redis
	// Recent has the records that this worker has written last, newest first. It is empty if the crawl does not run.
	Recent []fetcher.Recent `json:"recent,omitempty"`
}

// Pace has the rates of the last seconds, and the end that the crawl will reach first.
type Pace struct {
	PagesPerSecond float64 `json:"pages_per_s"`
	BytesPerSecond float64 `json:"bytes_per_s"`
	Requests       uint64  `json:"requests"`
	End            End     `json:"end"`
}
