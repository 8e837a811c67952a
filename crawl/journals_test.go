package crawl_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// leftBy runs the first worker of a crawl in Redis while the sink is away, and returns the config
// of the second worker, which has another directory, and the directory of the first one.
func leftBy(t *testing.T, sink *memorySink) (second crawl.Config, dir string) {
	t.Helper()
	sink.away = true
	c := config(t, site(t))
	c.Dir = filepath.Join(t.TempDir(), "workers", "w1")
	c.Redis = &crawl.Redis{URL: servers.Redis(t, servers.RedisOptions{}).URL(), Name: "x"}
	c.Events, c.Settings.Grace, c.Settings.MaxPages = &events.Config{Sink: sink, Name: "index"}, time.Second, 1 // the seed has the only request under way
	result := completed(t, c)
	left := missing(result.Report.Relays)
	if len(left) != 1 || left[0].Events != 1 || left[0].Dir != c.Dir || left[0].AtLeast || left[0].Host == "" || left[0].Written == left[0].Delivered ||
		!strings.Contains(left[0].Send, "crawler relay --redis ") || !strings.Contains(left[0].Send, "--dir "+c.Dir+" --relay index") {
		t.Fatalf("the report of the first worker has the missing events %+v, want 1 in %s and the command that sends them", left, c.Dir)
	}
	dir = c.Dir
	c.Dir, c.Settings.MaxPages = filepath.Join(filepath.Dir(dir), "w2"), 0
	sink.mu.Lock()
	sink.away = false
	sink.mu.Unlock()
	return c, dir
}

func missing(relays []report.RelayStatus) (left []report.RelayStatus) {
	for _, r := range relays {
		if r.Missing() {
			left = append(left, r)
		}
	}
	return left
}

// TestEventsOfDeadWorker: a worker with another directory delivers the events of a dead one, if the
// directory of the dead one is there.
func TestEventsOfDeadWorker(t *testing.T) {
	t.Parallel()
	sink := newMemorySink()
	c, _ := leftBy(t, sink)
	result := completed(t, c)
	if left := missing(result.Report.Relays); len(left) > 0 || len(sink.ids()) != 3 {
		t.Errorf("%d events arrived, and %+v are missing; want all 3 and none", len(sink.ids()), left)
	}
}

// TestEventsOfLostDirectory: the directory of a dead worker is not where it was. A second worker
// says which events are missing. Until the directory is found, their loss can be accepted. A relay
// of the directory delivers them, and the crawl forgets it.
func TestEventsOfLostDirectory(t *testing.T) {
	t.Parallel()
	sink := newMemorySink()
	c, dir := leftBy(t, sink)
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	result := completed(t, c)
	left := missing(result.Report.Relays)
	if len(left) != 1 || left[0].Events != 1 || left[0].Dir != dir || len(sink.ids()) != 2 {
		t.Fatalf("%d events arrived, and %+v are missing; want 2, and 1 missing in %s", len(sink.ids()), left, dir)
	}
	at := c.Location()
	at.Dir = c.Dir
	relays := func(at crawl.Location, use func(*crawl.Outboxes)) []report.RelayStatus {
		t.Helper()
		h, err := crawl.Attach(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		boxes, err := h.Outboxes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer boxes.Close()
		use(boxes)
		all, err := boxes.Relays(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := relays(at, func(boxes *crawl.Outboxes) {
		if _, err := boxes.GiveUp(t.Context(), "index", "another"); err == nil {
			t.Error("GiveUp of an unknown directory: no error")
		}
		if given, err := boxes.GiveUp(t.Context(), "index", left[0].Journal); err != nil || given.Events != 1 {
			t.Errorf("GiveUp = %+v, %v; want 1 event", given, err)
		}
	})
	if len(missing(all)) > 0 || !slices.ContainsFunc(all, func(r report.RelayStatus) bool { return r.GivenUp && r.Events == 1 }) {
		t.Errorf("after GiveUp: %+v; want none missing, and 1 given up", all)
	}
	at.Dir = moved
	all = relays(at, func(boxes *crawl.Outboxes) {
		if err := boxes.Relay(t.Context(), events.Config{Sink: sink, Name: "index"}, true); err != nil {
			t.Error(err)
		}
	})
	if len(sink.ids()) != 3 || slices.ContainsFunc(all, func(r report.RelayStatus) bool { return r.GivenUp || r.Left }) {
		t.Errorf("after the relay of the directory %d events arrived, and the relays are %+v; want 3, and nothing left", len(sink.ids()), all)
	}
}
