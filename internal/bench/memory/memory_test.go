package memory

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// runSteps runs the steps of a section within a budget.
func runSteps(t *testing.T, budget time.Duration, section *report.Section) error {
	r := report.Report{Began: time.Now(), Budget: budget.Seconds(), Sections: []*report.Section{section}}
	return r.Run(t.Context(), func(line string) { t.Log(line) })
}

func weighAll(t *testing.T, keys uint64, subjects ...Subject) *report.Section {
	t.Helper()
	section := Section(keys, subjects)
	if err := runSteps(t, 5*time.Minute, section); err != nil {
		t.Fatal(err)
	}
	return section
}

// scale returns a weigh function that measures nothing and returns bytes(n).
func scale(bytes func(n uint64) float64) func(context.Context, uint64) (float64, error) {
	return func(_ context.Context, n uint64) (float64, error) {
		return bytes(n), nil
	}
}

// TestHoldsToPrediction checks that the promise is kept if the size of one of our stores
// differs from the prediction by up to 10 %, and broken if the size differs more. For other
// stores there is no promise.
func TestHoldsToPrediction(t *testing.T) {
	ten := func(n uint64) (uint64, uint64) { return 10 * n, 12 * n }
	for _, c := range []struct {
		each  float64
		ours  bool
		fault string
	}{
		{9.01, true, ""}, {13.19, true, ""}, {11, true, ""},
		{8.99, true, "-10.1 % of the 10"}, {13.21, true, "+10.1 % of the 12"}, {100, false, ""},
	} {
		subject := Subject{Name: "store", Ours: c.ours, Predict: ten, Weigh: scale(func(n uint64) float64 { return c.each * float64(n) })}
		s := weighAll(t, 1000, subject)
		faults := strings.Join(s.Promises[0].Broken, "\n")
		if (faults != "") != (c.fault != "") || !strings.Contains(faults, c.fault) {
			t.Errorf("%g bytes per key: broken promises %q, want %q", c.each, faults, c.fault)
		}
		if c.ours != (s.Promises[0].Checks == 1) {
			t.Errorf("the promise was checked for %d figures, want 1 for our store, 0 for another set", s.Promises[0].Checks)
		}
	}
}

// TestSizesInMemory checks that there is a table for each size, and that the report names
// the sizes that are too large for a store.
func TestSizesInMemory(t *testing.T) {
	subject := Subject{Name: "store", Most: smallest, Weigh: scale(func(n uint64) float64 { return float64(n) })}
	s := weighAll(t, 3_000_000, subject)
	if len(s.Tables) != 3 || len(s.Tables[0].Rows) != 1 || len(s.Tables[1].Rows)+len(s.Tables[2].Rows) != 0 {
		t.Errorf("%d tables, want 3, of which only the first has a row", len(s.Tables))
	}
	if len(s.Missing) != 2 {
		t.Errorf("the report lacks %+v, want 2 sizes", s.Missing)
	}
}

// TestInHeap measures a filter and a map.
func TestInHeap(t *testing.T) {
	all := InHeap([]float64{1e-6})
	s := weighAll(t, smallest, all[0], all[2])
	if len(s.Missing) > 0 || len(s.Promises[0].Broken) > 0 || s.Promises[0].Checks != 1 {
		t.Errorf("missing %+v, broken promises %q, %d figures checked; want none, none and 1", s.Missing, s.Promises[0].Broken, s.Promises[0].Checks)
	}
	if prints := s.Tables[0].Rows[1][2]; prints.Value == nil || *prints.Value < 20 || *prints.Value > 50 {
		t.Errorf("a map takes %s bytes per fingerprint, want 20 to 50", prints.Text)
	}
}

// TestRedisIsWeighed measures subjects in Redis with few items, and checks that they leave no
// keys behind.
func TestRedisIsWeighed(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	for i, subject := range InRedis(redisAt(t, server), []float64{1e-6}) {
		if i == 2 || i == 3 {
			continue // these are the queue again, with other numbers of hosts
		}
		bytes, err := subject.Weigh(t.Context(), 2000)
		if err != nil {
			t.Fatalf("%s: %v", subject.Name, err)
		}
		if each := bytes / 2000; !(each > 1 && each < 1000) {
			t.Errorf("%s: %g bytes for 2000 items, want 1 to 1000 for each", subject.Name, bytes)
		}
		if n, err := server.Client().DBSize(t.Context()).Result(); err != nil || n > 0 {
			t.Fatalf("%s leaves %d keys in Redis (%v)", subject.Name, n, err)
		}
	}
}

func redisAt(t *testing.T, server *servers.RedisServer) *sets.Redis {
	t.Helper()
	r, err := sets.OpenRedis(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestPostgresIsWeighed(t *testing.T) {
	server := servers.Postgres(t, servers.PostgresOptions{})
	const n = 5000
	// Bytes per key of each subject.
	least, most := []float64{sets.URLBytes + 80, 60, sets.URLBytes}, []float64{600, 200, 400}
	for i, subject := range InPostgres(server.DSN()) {
		bytes, err := subject.Weigh(t.Context(), n)
		if each := bytes / n; err != nil || each < least[i] || each > most[i] {
			t.Errorf("%s: %g bytes per key by %s (%v), want %g to %g", subject.Name, each, subject.By, err, least[i], most[i])
		}
	}
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var left int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM crawler.crawl").Scan(&left); err != nil || left > 0 {
		t.Errorf("%d crawls are left in Postgres (%v)", left, err)
	}
}

func TestOnDisk(t *testing.T) {
	dir := t.TempDir()
	for _, subject := range OnDisk(dir) {
		bytes, err := subject.Weigh(t.Context(), 2000)
		if err != nil || bytes < 2000*20 {
			t.Errorf("%s: %g bytes for 2000 items (%v), want 20 or more for each", subject.Name, bytes, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v (%v)", left, err)
	}
}
