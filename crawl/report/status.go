package report

import (
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// Status is where a crawl stands.
type Status struct {
	Running  bool              `json:"running"`
	Stats    frontier.Stats    `json:"stats"`
	Progress *fetcher.Progress `json:"progress,omitempty"` // of the process that was asked; nil: it runs no crawl
	Shared   *Sharing          `json:"shared,omitempty"`   // nil: the crawl is embedded
	Exact    *ExactKeys        `json:"exact,omitempty"`    // nil: the exact keys are in the store itself
}

// Sharing says who works on a crawl in Redis.
type Sharing struct {
	Workers []Worker `json:"workers"` // that live
	// Lost counts URLs that workers were told were added, and of which Redis has
	// no trace any more.
	Lost uint64 `json:"acknowledged_and_lost"`
}

// Worker is one of those that share a crawl.
type Worker struct {
	Name       string    `json:"name"`
	Host       string    `json:"host"`
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Silent     float64   `json:"silent_seconds"` // since its last heartbeat
	Partitions int       `json:"partitions"`     // that it looks after
	Leases     int       `json:"leases"`         // hosts that it holds
}
