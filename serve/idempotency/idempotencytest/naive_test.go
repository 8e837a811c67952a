package idempotencytest_test

import (
	"context"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/serve/idempotency"
	"github.com/bloomfrontier/crawler/serve/idempotency/idempotencytest"
)

// fault is a classic fault of code that should make requests idempotent.
type fault int

const (
	none               fault = iota
	checkThenAct             // looks for the answer, and then runs the effect without a lock
	processingRow            // commits a row before the effect, which a crash leaves
	answerOutside            // commits the effect, and then the answer
	withoutCaller            // the key of one caller selects the answer of another
	payloadNotCompared       // another payload gets the answer of the first
)

// row is a row of a disk.
type row struct {
	digest     [32]byte
	answer     *idempotency.Answer
	processing bool
	expires    time.Time
}

// disk has what survives a crash.
type disk struct {
	rows    map[idempotency.ID]row
	effects map[string]int
}

// memory is a backend in memory with at most one fault. Without a fault it passes all cases.
type memory struct {
	fault    fault
	now      func() time.Time
	mu       sync.Mutex
	disk     disk
	crashed  bool
	underWay map[idempotency.ID]bool
}

func (m *memory) Store() idempotency.Store { return m }

type writesKey struct{}

func (m *memory) Write(ctx context.Context, name string) error {
	writes := ctx.Value(writesKey{}).(*[]string)
	*writes = append(*writes, name)
	return nil
}

func (m *memory) Count(name string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.effects[name], nil
}

func (m *memory) Crash() { m.mu.Lock(); defer m.mu.Unlock(); m.crashed = true }

func (m *memory) Restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crashed, m.underWay = false, make(map[idempotency.ID]bool)
}

// CallerOf implements idempotencytest.CallerOf.
func (m *memory) CallerOf(r *http.Request) string {
	if m.fault == withoutCaller {
		return ""
	}
	return r.Header.Get("X-Caller")
}

// commit changes the disk in one step, unless the process has crashed.
func (m *memory) commit(change func(*disk)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.crashed {
		change(&m.disk)
	}
}

// begin looks for the row of a request, and marks the request as under way if there is none.
func (m *memory) begin(r idempotency.Request) (*idempotency.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, exists := m.disk.rows[r.ID]
	exists = exists && found.expires.After(m.now())
	switch {
	case exists && found.processing:
		return nil, idempotency.ErrUnderWay
	case exists && found.answer != nil && found.digest != r.Digest && m.fault != payloadNotCompared:
		return nil, idempotency.ErrOtherPayload
	case exists && found.answer != nil:
		return found.answer, nil
	case m.underWay[r.ID] && m.fault != checkThenAct:
		return nil, idempotency.ErrUnderWay
	case r.Issued && !exists:
		return nil, idempotency.ErrUnknownKey
	}
	m.underWay[r.ID] = true
	return nil, nil
}

func (m *memory) Do(ctx context.Context, r idempotency.Request, effect func(context.Context) idempotency.Result) (*idempotency.Answer, error) {
	if replay, err := m.begin(r); replay != nil || err != nil {
		return replay, err
	}
	defer func() { m.mu.Lock(); defer m.mu.Unlock(); delete(m.underWay, r.ID) }()
	runtime.Gosched()
	if m.fault == processingRow {
		var before row
		m.commit(func(on *disk) {
			before = on.rows[r.ID]
			on.rows[r.ID] = row{processing: true, expires: m.now().Add(r.TTL)}
		})
		defer m.commit(func(on *disk) {
			if on.rows[r.ID].processing {
				on.rows[r.ID] = before
			}
		})
	}
	crash.Point("idempotency started")
	var writes []string
	result := effect(context.WithValue(ctx, writesKey{}, &writes))
	crash.Point("idempotency effect")
	write := func(on *disk) {
		for _, name := range writes {
			if result.Commit {
				on.effects[name]++
			}
		}
	}
	if m.fault == answerOutside {
		m.commit(write)
		write = func(*disk) {}
		crash.Point("idempotency answer")
	}
	m.commit(func(on *disk) {
		write(on)
		if result.Answer != nil {
			on.rows[r.ID] = row{digest: r.Digest, answer: result.Answer, expires: m.now().Add(r.TTL)}
		}
	})
	crash.Point("idempotency committed")
	return nil, nil
}

func (m *memory) Reserve(_ context.Context, id idempotency.ID, ttl time.Duration) (time.Time, error) {
	expires := m.now().Add(ttl)
	m.commit(func(on *disk) { on.rows[id] = row{expires: expires} })
	return expires, nil
}

func (m *memory) Sweep(_ context.Context, limit int) (deleted int, err error) {
	m.commit(func(on *disk) {
		maps.DeleteFunc(on.rows, func(_ idempotency.ID, r row) bool {
			expired := deleted < limit && !r.expires.After(m.now())
			if expired {
				deleted++
			}
			return expired
		})
	})
	return deleted, nil
}

func (m *memory) Stats(context.Context) (stats idempotency.Stats, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.disk.rows {
		stats.SweepLag = max(stats.SweepLag, m.now().Sub(r.expires))
	}
	return stats, nil
}

func open(f fault) idempotencytest.Open {
	return func(_ testing.TB, now func() time.Time) idempotencytest.Backend {
		return &memory{fault: f, now: now, underWay: make(map[idempotency.ID]bool),
			disk: disk{make(map[idempotency.ID]row), make(map[string]int)}}
	}
}

// TestMemory: the store without a fault passes all cases, so that the faults are what the cases
// of TestFaults find.
func TestMemory(t *testing.T) { idempotencytest.Run(t, open(none)) }

// TestFaults: the suite finds each classic fault.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault fault
		by    []string // the cases that find it, among others
	}{
		{"check, then act", checkThenAct, []string{"Race", "UnderWay"}},
		{"a processing row that a crash leaves", processingRow, []string{"CrashAtEachStep"}},
		{"the answer outside the transaction", answerOutside, []string{"CrashAtEachStep"}},
		{"a key without the caller", withoutCaller, []string{"OtherCaller"}},
		{"payload not compared", payloadNotCompared, []string{"OtherPayload"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := idempotencytest.Find(t, open(c.fault))
			for _, by := range c.by {
				if !slices.Contains(found, by) {
					t.Errorf("the case %s finds no fault, want one", by)
				}
			}
		})
	}
}
