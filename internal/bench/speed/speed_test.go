package speed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// runSteps runs the steps of a section within a budget.
func runSteps(t *testing.T, budget time.Duration, section *report.Section) error {
	r := report.Report{Began: time.Now(), Budget: budget.Seconds(), Sections: []*report.Section{section}}
	return r.Run(t.Context(), func(line string) { t.Log(line) })
}

// privateRedis opens a server with a log.
func privateRedis(t *testing.T) *sets.Redis {
	t.Helper()
	r, err := sets.OpenRedis(t.Context(), servers.Redis(t, servers.RedisOptions{AppendOnly: true}).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// measureAll runs the steps of a section and returns the rows of the first table. Each row maps the name of
// a column to a cell.
func measureAll(t *testing.T, section *report.Section) []map[string]report.Cell {
	t.Helper()
	if err := runSteps(t, time.Minute, section); err != nil {
		t.Fatal(err)
	}
	var rows []map[string]report.Cell
	for _, row := range section.Tables[0].Rows {
		named := make(map[string]report.Cell)
		for i, cell := range row {
			named[section.Tables[0].Columns[i]] = cell
		}
		rows = append(rows, named)
	}
	return rows
}

// positive checks that the row has a number above 0 in each of the columns.
func positive(t *testing.T, row map[string]report.Cell, columns ...string) {
	t.Helper()
	for _, column := range columns {
		if cell := row[column]; cell.Value == nil || *cell.Value <= 0 {
			t.Errorf("%v: %s is %q, want more than 0", row, column, cell.Text)
		}
	}
}

func TestSeenRows(t *testing.T) {
	in := privateRedis(t)
	for _, kind := range []sets.Kind{
		sets.Memory(), sets.Local(t.TempDir()), sets.RedisFilter(in), sets.RedisStore(in), sets.RedisSet(in, false),
	} {
		t.Run(kind.Name, func(t *testing.T) {
			section := Seen(400, []sets.Kind{kind})
			rows := measureAll(t, section)
			if want := len(callers) * len(pageLinks) * 2; len(rows) != want {
				t.Fatalf("%d rows, want %d", len(rows), want)
			}
			for _, row := range rows {
				positive(t, row, "links/s", "offered")
				if kind.Name != "membits" && kind.Name != "localstore" {
					positive(t, row, "wire B")
				}
				if kind.Name == "redisstore" && row["links"].Text == "new" {
					positive(t, row, "log B")
				}
			}
		})
	}
}

func TestFrontierRows(t *testing.T) {
	for _, kind := range []sets.Kind{sets.Local(t.TempDir()), sets.RedisStore(privateRedis(t))} {
		t.Run(kind.Name, func(t *testing.T) {
			section := Frontier(200, []sets.Kind{kind})
			rows := measureAll(t, section)
			if want := len(callers) * len(pageLinks); len(rows) != want {
				t.Fatalf("%d rows, want %d", len(rows), want)
			}
			for _, row := range rows {
				positive(t, row, "pages", "pages/s", "p50 ms", "p99 ms")
			}
		})
	}
}

// TestPostgresRows checks that new links make the log of Postgres longer.
func TestPostgresRows(t *testing.T) {
	server := servers.Postgres(t, servers.PostgresOptions{})
	kind := sets.Postgres(server.DSN())
	section := Seen(3000, []sets.Kind{kind})
	rows := measureAll(t, section)
	if want := len(callers) * len(pageLinks) * 2; len(rows) != want {
		t.Fatalf("%d rows, want %d", len(rows), want)
	}
	for _, row := range rows {
		positive(t, row, "links/s", "offered")
		if row["links"].Text == "new" {
			positive(t, row, "log B")
		}
		if row["server µs"].Value != nil || row["wire B"].Value != nil {
			t.Errorf("%v: has \"server µs\" or \"wire B\", which Postgres does not report", row)
		}
	}
}

// TestForgetfulSetIsFound checks that a set that forgets links causes an error.
func TestForgetfulSetIsFound(t *testing.T) {
	section := Seen(200, []sets.Kind{{
		Name: "forgetful", Open: func(context.Context, sets.Plan) (*sets.Set, error) {
			return &sets.Set{
				Add: func(_ context.Context, links sets.Links) ([]bool, error) {
					return slices.Repeat([]bool{true}, links.Len()), nil
				},
				Close:  func() error { return nil },
				Remove: func(context.Context) error { return nil },
			}, nil
		},
	}})
	if err := runSteps(t, time.Minute, section); err == nil || !strings.Contains(err.Error(), "new again") {
		t.Errorf("error %v, want one about links that are new again", err)
	}
}

// TestMeasureRate checks that the measurement begins after all calls for warming up, and that
// it counts items and calls correctly.
func TestMeasureRate(t *testing.T) {
	var used sets.Used
	set := &sets.Set{Used: func(context.Context) (sets.Used, error) {
		used.CPU += time.Second
		used.Wire += 100
		return used, nil
	}}
	var warm sync.Map
	warmUp := func(_ context.Context, call uint64) error {
		warm.Store(call, true)
		return nil
	}
	m := measure(t.Context(), set, 3, 10, time.Hour, warmUp, func(_ context.Context, _ uint64, timed timer) (uint64, error) {
		for call := range uint64(3 * warmCalls) {
			if _, warmed := warm.Load(call); !warmed {
				return 0, fmt.Errorf("the measurement began before call %d for warming up", call)
			}
		}
		return 5, timed(func() error { return nil })
	})
	if m.err != nil || m.items != 50 || m.calls != 10 || len(m.waits) != 10 {
		t.Errorf("%d items, %d calls, %d calls timed, error %v; want 50, 10 and 10", m.items, m.calls, len(m.waits), m.err)
	}
	if m.server != (sets.Used{CPU: time.Second, Wire: 100}) {
		t.Errorf("usage of the server %+v, want the difference of the last and the first answer", m.server)
	}
	once := measure(t.Context(), set, 3, 10, -1, warmUp, func(context.Context, uint64, timer) (uint64, error) { return 1, nil })
	if once.calls == 0 {
		t.Error("with a negative time: no call, want at least one")
	}
	broken := errors.New("broken")
	fails := func(context.Context, uint64, timer) (uint64, error) { return 0, broken }
	if failed := measure(t.Context(), set, 3, 10, time.Hour, warmUp, fails); !errors.Is(failed.err, broken) {
		t.Errorf("error %v, want that of a call", failed.err)
	}
	cold := func(context.Context, uint64) error { return broken }
	if failed := measure(t.Context(), set, 3, 10, time.Hour, cold, fails); !errors.Is(failed.err, broken) {
		t.Errorf("error %v, want that of a call to warm up", failed.err)
	}
}

func TestQuantileOfTimes(t *testing.T) {
	m := measured{waits: []time.Duration{1e6, 2e6, 3e6, 4e6}}
	for share, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 4, 1: 4} {
		if got := m.quantile(share); got != want {
			t.Errorf("quantile(%g) = %g, want %g", share, got, want)
		}
	}
}
