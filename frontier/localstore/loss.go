package localstore

import (
	"context"

	"github.com/bloomfrontier/crawler/frontier"
)

// RecordLoss counts committed records that are missing from the files, after a user
// accepted the loss.
type RecordLoss struct {
	Records        uint64                      `json:"records"`
	Pages          uint64                      `json:"pages"` // part of Records: those with a status
	Outcomes       map[frontier.Outcome]uint64 `json:"outcomes,omitempty"`
	Done, Failures RecordSum                   // like Finished and Failures of a Recount
}

// AcceptLoss sets the end of the records to position and stores loss, which replaces an
// earlier loss and must include it. The URLs of missing records keep their outcomes. The
// store must have been opened without an output.
func (s *Store) AcceptLoss(ctx context.Context, position frontier.Position, loss RecordLoss) error {
	return s.do(ctx, &op{change: func(g *group) error {
		g.meta.Position, g.meta.Lost = position, &loss
		g.meta.Stats.MissingRecords = loss.Records
		g.changed = true
		return nil
	}})
}
