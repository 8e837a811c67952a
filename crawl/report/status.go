package report

import (
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// Status is the state of a crawl.
type Status struct {
	Running  bool              `json:"running"`
	Stats    frontier.Stats    `json:"stats"`
	Progress *fetcher.Progress `json:"progress,omitempty"`  // of this process; nil means that it does not run the crawl
	Shared   *Sharing          `json:"shared,omitempty"`    // nil means that the crawl is not in Redis
	Exact    *ExactKeys        `json:"exact,omitempty"`     // nil means that the exact keys are in the store itself
	Relays   []RelayStatus     `json:"relays,omitempty"`    // relays that deliver the crawl's events
	NotTaken []CauseCount      `json:"not_taken,omitempty"` // as in Report

	Visits *Visits `json:"visits,omitempty"` // of Settings.Recrawl; nil if it is off

	// Pauses are the rules of crawler pause in force, and Drops those of crawler drop.
	Pauses []string `json:"pauses,omitempty"`
	Drops  []string `json:"drops,omitempty"`

	FullHosts FullHosts `json:"full_hosts,omitempty"`      // as in Report
	SameText  SameText  `json:"same_text_hosts,omitempty"` // as in Report
	Errors    Errors    `json:"errors_by_cause,omitempty"` // as in Report

	Now   string `json:"now"`             // what the crawl waits for, and what would change that, in words
	Kind  Kind   `json:"now_kind"`        // the kind of that
	Waits *Waits `json:"waits,omitempty"` // what the hosts wait for
}

// Sharing lists the workers of a crawl in Redis.
type Sharing struct {
	Workers []Worker `json:"workers"` // workers that are alive
	// Lost counts the URLs that Redis lost after it had reported them as added, and that were not
	// found again.
	Lost       uint64 `json:"acknowledged_and_lost"`
	FoundAgain uint64 `json:"lost_and_found_again"` // URLs that Redis lost, and that were added again since
}

// Worker is one of the workers of a crawl.
type Worker struct {
	Name       string    `json:"name"`
	Host       string    `json:"host"`
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Silent     float64   `json:"silent_seconds"` // time since its last heartbeat
	Partitions int       `json:"partitions"`     // number of partitions that it serves
	Leases     int       `json:"leases"`         // number of hosts that it has leased
}
