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
	Progress *fetcher.Progress `json:"progress,omitempty"` // of the process that was asked; nil means that it runs no crawl
	Shared   *Sharing          `json:"shared,omitempty"`   // nil means that the crawl is embedded
	Exact    *ExactKeys        `json:"exact,omitempty"`    // nil means the exact keys are in the store itself
	Relays   []Relay           `json:"relays,omitempty"`   // that deliver its events, by name
}

// Sharing lists the workers of a crawl in Redis.
type Sharing struct {
	Workers []Worker `json:"workers"` // that live
	// Lost counts URLs that Redis answered added and has lost since.
	Lost uint64 `json:"acknowledged_and_lost"`
}

// Worker is one of the workers of a crawl.
type Worker struct {
	Name       string    `json:"name"`
	Host       string    `json:"host"`
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Silent     float64   `json:"silent_seconds"` // since its last heartbeat
	Partitions int       `json:"partitions"`     // that it looks after
	Leases     int       `json:"leases"`         // hosts that it holds
}
