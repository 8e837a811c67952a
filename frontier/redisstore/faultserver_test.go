package redisstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// logWatch records the length of a server's log at several times.
type logWatch struct {
	server *servers.RedisServer
	file   string
	at     []time.Time
	size   []int64
}

// look records the length of the log, with all writes that were answered so far.
func (w *logWatch) look(t *testing.T) {
	now := time.Now()
	if err := w.server.FlushAOF(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(w.server.AOFDir(), "*.incr.aof"))
	if err != nil || len(files) == 0 {
		t.Fatalf("logs are %q (%v), want one", files, err)
	}
	if len(files) > 1 { // the log is being rewritten
		return
	}
	if files[0] != w.file {
		*w = logWatch{server: w.server, file: files[0]}
	}
	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	w.at, w.size = append(w.at, now), append(w.size, info.Size())
}

// mend waits until a server that was started with a cut log has rewritten it (see
// Store.renewLog). Until then the test must not cut the log again.
func mend(ctx context.Context, t *testing.T, server *servers.RedisServer) {
	t.Helper()
	err := server.Client().BgRewriteAOF(ctx).Err()
	if err != nil && !strings.Contains(err.Error(), "in progress") { // a worker has begun a rewrite
		t.Fatal(err)
	}
	for {
		going, err := server.Info("persistence", "aof_rewrite_in_progress")
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(server.AOFDir(), "*.incr.aof"))
		if err != nil {
			t.Fatal(err)
		}
		if going == "0" && len(files) == 1 {
			return
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// since returns the length of the log at the first call of look after start. If look was not
// called after start, since returns the length at the last call.
func (w *logWatch) since(start time.Time) int64 {
	for i, at := range w.at {
		if at.After(start) {
			return w.size[i]
		}
	}
	return w.size[len(w.size)-1]
}

// TestServerLosesItsLastMoments kills the server several times during a crawl
// and cuts its log at a random byte of the last two seconds. Everything is
// found again, the books balance, and each host's delay is kept.
func TestServerLosesItsLastMoments(t *testing.T) {
	t.Parallel()
	rng := newRand(t)
	rounds, pages := 2, 2500
	if *proof {
		rounds, pages = 10, 25_000
	}
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	cfg := config(server)
	cfg.Capacity = uint64(pages)
	e := newExpedition(t, cfg, 3, pages)
	forgot, cut := 0, int64(0)
	e.run(time.Duration(60+20*rounds)*time.Second, func(ctx context.Context) {
		for range rounds {
			// After a restart, no host is leased until the TTL of a lease has passed.
			w := &logWatch{server: server}
			for until := time.Now().Add(e.ttl + 500*time.Millisecond + time.Duration(rng.Int64N(1e9))); time.Now().Before(until); {
				w.look(t)
				_ = sleep(ctx, 20*time.Millisecond)
			}
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			before := w.since(time.Now().Add(-2 * time.Second))
			if err := server.CutAOF(func(size int64) int64 {
				keep := before + rng.Int64N(size-before+1)
				cut += size - keep
				return keep
			}); err != nil {
				t.Fatal(err)
			}
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
			mend(ctx, t, server)
			if e.forgotten(ctx) {
				forgot++
			}
			e.seed(ctx)
		}
	})
	t.Logf("%d bytes of log were cut; in %d of %d rounds the server forgot added URLs", cut, forgot, rounds)
	if *proof && forgot == 0 {
		t.Error("the server never forgot an added URL, so the test has shown nothing")
	}
	e.wantEverything()
}

// forgotten reports whether the servers count fewer items than the workers have added.
func (e *expedition) forgotten(ctx context.Context) bool {
	for ctx.Err() == nil {
		losses, err := e.stores[1].Lost(ctx)
		if err == nil {
			return len(losses) > 0
		}
		if !e.passes(ctx, err) {
			break
		}
	}
	return false
}

// TestFullServerDrains: a server without memory refuses new items and links. It
// still grants and extends leases, and completes pages without links. The crawl can be
// paused, and another worker can join it.
func TestFullServerDrains(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	s := openStore(t, cfg)
	mustAdd(t, s, testPages("a.test", 0, 100))
	mustAdd(t, s, testPages("b.test", 0, 100))
	lease := func() frontier.Lease {
		t.Helper()
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1), MaxPages: 1000})
		if err != nil || len(grant.Leases) != 1 {
			t.Fatalf("Lease = %+v, %v, want one lease", grant, err)
		}
		return grant.Leases[0]
	}
	first, second := lease(), frontier.Lease{}
	limit := func(bytes string) {
		t.Helper()
		if err := server.Client().ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit("1mb")
	linking := finish(first.Items[0])
	linking.Links = testPages("c.test", 0, 10)
	for what, call := range map[string]func() error{
		"Add": func() error { _, err := s.Add(t.Context(), testPages("c.test", 0, 1)); return err },
		"Complete with links": func() error {
			return s.Complete(t.Context(), first.ID, []frontier.Completion{linking}, frontier.HostUpdate{})
		},
	} {
		if err := call(); !errors.Is(err, frontier.ErrFull) || !errors.Is(err, frontier.ErrUnavailable) {
			t.Errorf("%s without memory = %v, want %v and %v", what, err, frontier.ErrFull, frontier.ErrUnavailable)
		}
	}
	for _, paused := range []bool{true, false} {
		if err := s.Pause(t.Context(), paused); err != nil {
			t.Errorf("Pause(%t) without memory: %v", paused, err)
		}
	}
	second = lease() // before another worker takes its share of the hosts
	cfg.Worker = "late"
	if late := openStore(t, cfg); !slices.ContainsFunc(liveWorkers(t, s), func(w Worker) bool { return w.Number == late.number }) {
		t.Error("a worker that joined without memory does not count as live")
	}
	for _, l := range []frontier.Lease{first, second} {
		if _, err := s.Extend(t.Context(), l.ID, frontier.TopUp{Items: 40, Known: len(l.Items)}); err != nil {
			t.Errorf("Extend without memory: %v", err)
		}
		var done []frontier.Completion
		for _, item := range l.Items[1:] {
			done = append(done, finish(item))
		}
		if err := s.Complete(t.Context(), l.ID, done, frontier.HostUpdate{Blob: []byte("blob")}); err != nil {
			t.Errorf("Complete without memory: %v", err)
		}
	}
	limit("0")
	if err := s.Complete(t.Context(), first.ID, []frontier.Completion{linking}, frontier.HostUpdate{End: true}); err != nil {
		t.Errorf("Complete with links, with memory again: %v", err)
	}
	if stats := wantBooks(t, s); stats.Added != 210 || stats.Done != 63 {
		t.Errorf("the books are %+v, want 210 added, 63 done", stats.Books)
	}
}
