package crawltest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// place is a crawl in memory. It implements engine.Place and all interfaces of an engine.Engine. The frontier is the
// reference store, which has no filter: no URL is lost to a false positive.
type place struct {
	*frontiertest.Memory

	mu      sync.Mutex
	records []*record.Record
}

var _ engine.Place = (*place)(nil)

func newPlace() *place { return new(place) }

// String implements engine.Place.
func (p *place) String() string { return "a crawl in memory" }

// Stored implements engine.Place: every crawl is new.
func (p *place) Stored(context.Context) (*engine.Stored, error) { return nil, nil }

// Open implements engine.Place.
func (p *place) Open(_ context.Context, c *engine.Config, _ engine.Purpose) (*engine.Engine, error) {
	policy := c.Policy()
	p.Memory = frontiertest.NewMemory(frontiertest.MemoryConfig{
		LeaseTTL: c.LeaseTTL, Policy: c.Policy, MaxPerHost: policy.MaxPerHost, SeedsUnlimited: policy.SeedsUnlimited,
	})
	return &engine.Engine{Queue: p, Look: p, Change: p, Versions: p, Output: p}, nil
}

// Append implements record.Sink.
func (p *place) Append(r *record.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = append(p.records, r)
	return nil
}

// Lines implements engine.RecordSource.
func (p *place) Lines() iter.Seq2[[]byte, error] {
	p.mu.Lock()
	records := slices.Clone(p.records)
	p.mu.Unlock()
	return func(yield func([]byte, error) bool) {
		for _, r := range records {
			if !yield(json.Marshal(r)) {
				return
			}
		}
	}
}

// The other methods are those of a crawl that has nothing else: no files, no other process, no exact set.

func (p *place) Busy() bool                                          { return false }
func (p *place) OneProcess() bool                                    { return true }
func (p *place) RunDirs() ([]string, error)                          { return nil, nil }
func (p *place) Home() string                                        { return "" }
func (p *place) Recreate(context.Context) (*engine.LostError, error) { return nil, nil }
func (p *place) Remove(context.Context) (int, error)                 { return 0, errors.ErrUnsupported }
func (p *place) RowsOf(context.Context) (engine.RecordSource, func(), error) {
	return nil, nil, errors.ErrUnsupported
}
func (p *place) Outbox(context.Context, bool, func(context.Context) (frontier.Position, error)) (engine.Outbox, func() error, error) {
	return engine.Outbox{}, nil, errors.ErrUnsupported
}

func (p *place) Forward(context.Context) (stop func()) { return func() {} }
func (p *place) StopRequested() <-chan struct{}        { return nil }
func (p *place) CancelWait()                           {}
func (p *place) Err() error                            { return nil }

func (p *place) Counters(ctx context.Context) (frontier.Stats, error) { return p.Stats(ctx) }
func (p *place) Hasher() bloomstore.Hasher                            { return p.Memory.Hasher() }
func (p *place) FilterBytes() uint64                                  { return 0 }
func (p *place) ExactElsewhere() bool                                 { return false }
func (p *place) Committed() (uint64, bool)                            { return 0, false }
func (p *place) FilterLayers(context.Context) ([]frontier.FilterLayer, error) {
	return nil, nil
}
func (p *place) Probe(context.Context, uint64) (claimed, probes uint64, err error) { return 0, 0, nil }
func (p *place) LocateURL(context.Context, string, string) (engine.URLState, error) {
	return engine.URLState{}, errors.ErrUnsupported
}
func (p *place) CountBooks(context.Context) (report.Audit, error) {
	return report.Audit{}, errors.ErrUnsupported
}
func (p *place) CommittedRecords(context.Context) (engine.RecordSource, error) { return p, nil }
func (p *place) Trail(string) ([]record.Record, error)                         { return nil, nil }
func (p *place) Export(context.Context, record.Export, io.Writer) (record.Exported, error) {
	return record.Exported{}, errors.ErrUnsupported
}
func (p *place) Position(context.Context) (frontier.Position, error)     { return nil, nil }
func (p *place) Sharing(context.Context) (*report.Sharing, error)        { return nil, nil }
func (p *place) ExactKeys(context.Context) (*report.ExactKeys, error)    { return nil, nil }
func (p *place) Notes(context.Context) (map[string]string, error)        { return nil, nil }
func (p *place) Outboxes(context.Context) ([]engine.Outbox, error)       { return nil, nil }
func (p *place) Journals(context.Context) ([]engine.Journal, error)      { return nil, nil }
func (p *place) OutboxOf(engine.Journal) (box engine.Outbox, found bool) { return box, false }

func (p *place) MarkSeen(context.Context, []engine.SeenURL) (int, error) {
	return 0, errors.ErrUnsupported
}
func (p *place) Recheck(context.Context, []frontier.Finished) (int, error) {
	return 0, errors.ErrUnsupported
}
func (p *place) Readmit(context.Context, []frontier.Offer, bool) ([]frontier.Readmission, error) {
	return nil, errors.ErrUnsupported
}
func (p *place) AcceptRecordLoss(context.Context) (*engine.Loss, error) { return nil, nil }
func (p *place) ReconcileSet(context.Context, bool) (exact.Reconciled, error) {
	return exact.Reconciled{}, nil
}
func (p *place) StopWorkers(context.Context) (left, died []redisstore.Worker, err error) {
	return nil, nil, errors.ErrUnsupported
}
func (p *place) Note(context.Context, string, string) error          { return nil }
func (p *place) ReportJournal(context.Context, engine.Journal) error { return nil }
func (p *place) ForgetJournal(context.Context, string, string) error { return nil }

func (p *place) NewestVersion(context.Context) (*engine.Version, error) { return nil, nil }
func (p *place) LastVersion(context.Context) (*engine.Version, error)   { return nil, nil }
func (p *place) History(context.Context) ([]engine.Version, error)      { return nil, nil }
func (p *place) AddVersion(context.Context, *engine.Version) (bool, error) {
	return false, errors.ErrUnsupported
}
func (p *place) PublishVersion(context.Context, *engine.Version) error { return nil }

func (p *place) Dir() string            { return "" }
func (p *place) Sink() record.Sink      { return p }
func (p *place) Archive() *warc.Writer  { return nil }
func (p *place) Edges() record.EdgeSink { return nil }
