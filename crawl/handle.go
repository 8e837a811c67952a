package crawl

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/internal/explain"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// Handle inspects and controls a crawl. If a process runs the crawl from the
// handle's directory, that process answers through its control socket. Otherwise
// each call opens the crawl and closes it again. In this case, calls on an embedded crawl
// (a crawl in a directory) wait for each other. A Handle is safe for concurrent use.
type Handle struct {
	location Location
	place    engine.Place
	network  *Settings // see Guard; nil permits every address
	own      *session  // the session of a Crawl; nil for a Handle from Attach

	turn chan struct{} // holds an element while a call uses the session in kept, or has an embedded crawl open
	kept *session      // the session that Keep opened; nil if each call opens its own
}

func newHandle(l Location, place engine.Place) *Handle {
	return &Handle{location: l, place: place, turn: make(chan struct{}, 1)}
}

// lock waits until no other call uses the session in h.kept, or has an embedded crawl open.
func (h *Handle) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Handle) unlock() { <-h.turn }

// Guard makes calls that open the crawl themselves refuse seeds whose addresses or ports the settings do not permit, as a run with them does:
// AllowPrivate, AllowNet, AllowPorts, ConnectTo and DNS. Without Guard, they permit every address, because they do not know the
// settings of the next run. Guard must be called before other methods.
func (h *Handle) Guard(s Settings) { h.network = &s }

// Location returns the location of the crawl.
func (h *Handle) Location() Location { return h.location }

// Running reports whether a process runs the crawl from the handle's directory. A crawl
// in Redis can have workers elsewhere: Status names them.
func (h *Handle) Running(ctx context.Context) bool {
	return h.own != nil || control.Listens(ctx, h.location.Dir)
}

// Keep opens the crawl for the calls that follow, until release is called. It does
// nothing if a process runs the crawl, or if the Handle keeps the crawl open already.
func (h *Handle) Keep(ctx context.Context) (release func() error, err error) {
	return h.keep(ctx, engine.ToSteer)
}

// keep implements Keep. It opens the crawl for the given purpose.
func (h *Handle) keep(ctx context.Context, why engine.Purpose) (release func() error, err error) {
	if err := h.lock(ctx); err != nil {
		return nil, err
	}
	defer h.unlock()
	if h.kept != nil || h.Running(ctx) {
		return func() error { return nil }, nil
	}
	place := h.place
	if why == engine.ToCrawl {
		if place, err = h.dropPlace(); err != nil {
			return nil, err
		}
	}
	ses, err := openStored(ctx, h.location, place, h.network, why)
	if err != nil {
		return nil, err
	}
	h.kept = ses
	return func() error {
		h.turn <- struct{}{}
		defer h.unlock()
		if h.kept == ses {
			h.kept = nil
		}
		return ses.close()
	}, nil
}

// SeedAnswer is the answer to one seed.
type SeedAnswer struct {
	URL     string          `json:"url,omitempty"` // canonical; empty if the seed has no canonical form
	Answer  string          `json:"answer"`        // "added", "seen" or "refused"
	Reason  frontier.Reason `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"` // why the seed was refused, for people
}

// Seed adds seeds to the crawl, and returns an answer to each, index for index. A
// seed without a scheme is tried as https. If Seed returns an error, some of the
// seeds might have been added, and repeating the call is safe. Seed does not look up
// the names of hosts.
func (h *Handle) Seed(ctx context.Context, seeds []string) ([]SeedAnswer, error) {
	return ask(ctx, h, verbSeed, seedQuestion{Seeds: seeds})
}

// SeedChecked is like Seed, but looks up each seed's host first. It refuses a seed if
// all addresses of its host are forbidden.
func (h *Handle) SeedChecked(ctx context.Context, seeds []string) ([]SeedAnswer, error) {
	return ask(ctx, h, verbSeed, seedQuestion{Seeds: seeds, Check: true})
}

// Status returns the state of the crawl.
func (h *Handle) Status(ctx context.Context) (report.Status, error) {
	return ask(ctx, h, verbStatus, nothing{})
}

// Sample returns the current state of the process that runs the crawl.
func (h *Handle) Sample(ctx context.Context) (report.Sample, error) {
	return ask(ctx, h, verbSample, nothing{})
}

// Watch yields a sample each second while a process runs the crawl. The Watch of a Crawl
// also yields a sample as soon as this process pauses or resumes the crawl. Watch ends
// without an error when ctx ends. If another process runs the crawl, Watch also ends
// without an error when that process stops running it.
func (h *Handle) Watch(ctx context.Context) iter.Seq2[report.Sample, error] {
	return func(yield func(report.Sample, error) bool) {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		var changed <-chan struct{}
		if h.own != nil {
			changed = h.own.changed
		}
		for {
			s, err := h.Sample(ctx)
			switch {
			case ctx.Err() != nil, err != nil && !h.Running(ctx):
				return
			case h.own != nil && err != nil: // the run itself reports errors of the store
			case !yield(s, err) || err != nil:
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			case <-changed:
			}
		}
	}
}

// Report returns a report on the crawl. The argument probe is the longest time for
// which Report probes the filter with random fingerprints; 0 means no probes. Probing
// keeps a core busy.
func (h *Handle) Report(ctx context.Context, probe time.Duration) (*report.Report, error) {
	return ask(ctx, h, verbReport, probe)
}

// Audit compares the counters of the crawl with a new count, for which it reads the
// whole crawl.
func (h *Handle) Audit(ctx context.Context) (report.Audit, error) {
	return ask(ctx, h, verbAudit, nothing{})
}

// Explain says why a URL was, or was not, crawled. It requests nothing.
func (h *Handle) Explain(ctx context.Context, url string) (*Explanation, error) {
	return ask(ctx, h, verbExplain, url)
}

// Explanation explains one URL: its canonical form, the answer of each rule, and
// its state in the queue, the filter, the exact set and the records. Its JSON form
// is what "crawler explain --json" prints; WriteTo writes the text for people.
type Explanation = explain.Explanation

// Failures selects failed URLs. The zero value selects all.
type Failures = frontier.Failures

// Retry queues the selected failed URLs again, in a new round. If it selects the outcome frontier.Dropped, Retry first
// withdraws drop rules, in a new version of the policy that names who: all of them or, with a host, those
// whose host is just that one. What a rule of the policy still refuses is dropped again when its turn comes. Retry works
// in steps, and can be repeated.
func (h *Handle) Retry(ctx context.Context, of Failures, who string) (Retried, error) {
	return ask(ctx, h, verbRetry, retryQuestion{of, who})
}

// Retried is the result of Handle.Retry.
type Retried struct {
	URLs      int      `json:"urls"`                // how many were queued again
	Withdrawn []string `json:"withdrawn,omitempty"` // drop rules
	Version   uint64   `json:"version,omitempty"`   // of the policy, without the withdrawn rules
	Left      []string `json:"left,omitempty"`      // drop rules that are in force, if dropped URLs were selected
}

// Pause prevents new requests until Resume is called, also in later runs. It
// reports whether the crawl was paused before.
func (h *Handle) Pause(ctx context.Context) (before bool, err error) {
	return ask(ctx, h, verbPause, true)
}

// Resume ends a pause. It reports whether the crawl was paused before.
func (h *Handle) Resume(ctx context.Context) (before bool, err error) {
	return ask(ctx, h, verbPause, false)
}

// Reconcile compares Postgres with Redis. If an exact URL (see Settings.Exact) is not finished
// according to Postgres, but Redis does not have it, Reconcile queues it again. Reconcile can
// be called at any time.
func (h *Handle) Reconcile(ctx context.Context) (Reconciled, error) {
	return ask(ctx, h, verbReconcile, nothing{})
}

// Reconciled counts the exact keys that Reconcile handled.
type Reconciled = exact.Reconciled

// WriteSeeds writes DIR/seeds.jsonl again. It returns the path of the file and the
// number of seeds in it.
func (h *Handle) WriteSeeds(ctx context.Context) (path string, seeds uint64, err error) {
	seeds, err = ask(ctx, h, verbSeeds, nothing{})
	return seedsPath(h.place), seeds, err
}

// Stop ends the run of the process that runs the crawl, as a signal does, and waits
// until that process has closed the crawl. It reports whether a process ran the crawl.
func (h *Handle) Stop(ctx context.Context) (ran bool, err error) {
	if !h.Running(ctx) {
		return false, ctx.Err()
	}
	_, err = ask(ctx, h, verbStop, nothing{})
	if h.own != nil || err != nil && !errors.Is(err, control.ErrNotRun) { // control.ErrNotRun: it has just ended by itself
		return true, err
	}
	return true, awaitEnd(ctx, h.location.Dir)
}

// StoppedWorkers names the workers that StopWorkers asked to stop.
type StoppedWorkers struct {
	Left []string // workers that ended as after a signal
	Died []string // workers that did not leave, and whose heartbeat has stopped
}

// StopWorkers asks all workers of a crawl in Redis to stop, as a signal does, and waits until they have
// ended. It does not concern workers that join later. If ctx ends first, the workers stop nevertheless.
func (h *Handle) StopWorkers(ctx context.Context) (stopped StoppedWorkers, err error) {
	ses, err := h.openStored(ctx, engine.ToLook)
	if err != nil {
		return stopped, err
	}
	left, died, err := ses.engine.StopWorkers(ctx)
	for _, w := range left {
		stopped.Left = append(stopped.Left, w.Name)
	}
	for _, w := range died {
		stopped.Died = append(stopped.Died, w.Name)
	}
	return stopped, errors.Join(err, ses.close())
}

// Records yields the committed records of the crawl as lines of JSON with their
// line feeds. A URL has one record for each round: see Retry. Blocked URLs have none: see Block. Records stops after an error.
func (h *Handle) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	return h.lines(ctx, func(records engine.RecordSource) (engine.RecordSource, error) { return records, nil })
}

// Selection says which records Snapshot reads.
type Selection = engine.Selection

// Snapshot calls the function read with an iterator over the selected records, of those that are
// committed now. The lines are like those of Records. Each iteration yields the same lines, even if
// the crawl adds records meanwhile, unless s.Once is set. If the records are not in the files of one
// directory, Snapshot copies them to a temporary file. It chooses the latest record of each URL, and
// joins referrers, with other temporary files: 28 and 250 bytes a record. If the function read
// returns an error, Snapshot returns this error.
func (h *Handle) Snapshot(ctx context.Context, s Selection, read func(records iter.Seq2[[]byte, error]) error) error {
	records, closeRecords, err := h.records(ctx)
	if err != nil {
		return err
	}
	blocks, err := h.blocks(ctx)
	if err == nil {
		err = s.Read(ctx, engine.Without(records, &blocks), read)
	}
	return errors.Join(err, closeRecords())
}

// lines calls the given function with the committed records, and yields the lines of its
// result. It stops after an error.
func (h *Handle) lines(ctx context.Context, of func(engine.RecordSource) (engine.RecordSource, error)) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		records, closeRecords, err := h.records(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		blocks, err := h.blocks(ctx)
		if err != nil {
			yield(nil, errors.Join(err, closeRecords()))
			return
		}
		source, err := of(engine.Without(records, &blocks))
		if err != nil {
			yield(nil, errors.Join(err, closeRecords()))
			return
		}
		for line, err := range engine.WithContext(ctx, source.Lines()) {
			if !yield(line, err) || err != nil {
				_ = closeRecords() // the caller has stopped, or has an error already
				return
			}
		}
		if err := closeRecords(); err != nil {
			yield(nil, err)
		}
	}
}

// records returns the committed records. If another process runs an embedded crawl,
// that process says where the committed records end, and this process reads the files
// up to that position.
func (h *Handle) records(ctx context.Context) (engine.RecordSource, func() error, error) {
	none := func() error { return nil }
	if h.own != nil {
		records, err := h.own.engine.CommittedRecords(ctx)
		return records, none, err
	}
	if h.place.OneProcess() {
		stored, err := h.place.Stored(ctx)
		if err != nil {
			return nil, nil, err
		}
		if stored.InRows() {
			rows, closeRows, err := h.place.RowsOf(ctx)
			return rows, func() error { closeRows(); return nil }, err
		}
		end, err := ask(ctx, h, verbPosition, nothing{})
		return record.Reader{Dir: h.location.Dir, End: end}, none, err
	}
	ses, err := h.openStored(ctx, engine.ToLook)
	if err != nil {
		return nil, nil, err
	}
	records, err := ses.engine.CommittedRecords(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, ses.close())
	}
	return records, ses.close, nil
}

// Close closes the crawl if Keep has opened it.
func (h *Handle) Close() error {
	h.turn <- struct{}{}
	defer h.unlock()
	if h.kept != nil {
		kept := h.kept
		h.kept = nil
		return kept.close()
	}
	return nil
}
