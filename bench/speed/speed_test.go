package speed

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bench/agenda"
	"github.com/bloomfrontier/crawler/bench/report"
	"github.com/bloomfrontier/crawler/bench/servers"
)

type silent struct{}

func (silent) Begin(*agenda.Step)       {}
func (silent) Progress(float64)         {}
func (silent) End(*agenda.Step, string) {}

// privateRedis opens a server with a log.
func privateRedis(t *testing.T) OpenRedis {
	return func(context.Context) (RedisServer, error) {
		server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
		return RedisServer{
			Options: &redis.UniversalOptions{Addrs: []string{server.Socket()}}, Client: server.Client(), Close: server.Close,
		}, nil
	}
}

// measureAll runs steps in little time and returns the rows, column by column name.
func measureAll(t *testing.T, section *report.Section, steps []*agenda.Step) []map[string]report.Cell {
	t.Helper()
	if err := agenda.Run(t.Context(), time.Minute, steps, silent{}); err != nil {
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

// positive fails the test unless the row has a number above 0 in each column.
func positive(t *testing.T, row map[string]report.Cell, columns ...string) {
	t.Helper()
	for _, column := range columns {
		if cell := row[column]; cell.Value == nil || *cell.Value <= 0 {
			t.Errorf("%v: %s is %q, want more than 0", row, column, cell.Text)
		}
	}
}

func TestSeen(t *testing.T) {
	open := privateRedis(t)
	for _, subject := range []Subject{Memory(), Local(t.TempDir()), RedisFilter(open), RedisStore(open)} {
		t.Run(subject.Name, func(t *testing.T) {
			section, steps := Seen(Config{Keys: 400, Subjects: []Subject{subject}})
			rows := measureAll(t, section, steps)
			if want := len(callers) * len(pageLinks) * 2; len(rows) != want {
				t.Fatalf("%d rows, want %d", len(rows), want)
			}
			for _, row := range rows {
				positive(t, row, "links/s", "offered")
				if strings.HasPrefix(subject.Name, "redis") {
					positive(t, row, "wire B")
				}
				if subject.Name == "redisstore" && row["links"].Text == "new" {
					positive(t, row, "log B")
				}
			}
		})
	}
}

func TestFrontier(t *testing.T) {
	for _, subject := range []Subject{Memory(), Local(t.TempDir()), RedisStore(privateRedis(t))} {
		t.Run(subject.Name, func(t *testing.T) {
			section, steps := Frontier(Config{Keys: 200, Subjects: []Subject{subject}})
			if !subject.Queue {
				if len(steps) > 0 {
					t.Error("a filter has no queue, but there are steps for it")
				}
				return
			}
			rows := measureAll(t, section, steps)
			if want := len(callers) * len(pageLinks); len(rows) != want {
				t.Fatalf("%d rows, want %d", len(rows), want)
			}
			for _, row := range rows {
				positive(t, row, "pages", "pages/s", "p50 ms", "p99 ms")
			}
		})
	}
}

// TestPostgres: its calls have three sizes, and what is new is in its log.
func TestPostgres(t *testing.T) {
	server := servers.Postgres(t, servers.PostgresOptions{})
	subject := Postgres(func(context.Context) (string, func() error, error) {
		return server.DSN(), func() error { return nil }, nil
	})
	section, steps := Seen(Config{Keys: 3000, Subjects: []Subject{subject}})
	rows := measureAll(t, section, steps)
	if want := len(callers) * len(subject.Batches) * 2; len(rows) != want {
		t.Fatalf("%d rows, want %d", len(rows), want)
	}
	for _, row := range rows {
		positive(t, row, "links/s", "offered")
		if row["links"].Text == "new" {
			positive(t, row, "log B")
		}
		if row["server µs"].Value != nil || row["wire B"].Value != nil {
			t.Errorf("%v: figures of what Postgres does not say", row)
		}
	}
}

// TestForgetful: a set that forgets what it was told must not be measured.
func TestForgetful(t *testing.T) {
	_, steps := Seen(Config{Keys: 200, Subjects: []Subject{{
		Name: "forgetful", Open: func(context.Context, uint64) (*Opened, error) {
			return &Opened{
				Offer: func(_ context.Context, _, n uint64) (uint64, error) { return n, nil },
				Close: func(context.Context) error { return nil },
			}, nil
		},
	}}})
	if err := agenda.Run(t.Context(), time.Minute, steps, silent{}); err == nil || !strings.Contains(err.Error(), "new again") {
		t.Errorf("error %v, want one about links that are new again", err)
	}
}

func TestMeasure(t *testing.T) {
	var used Server
	o := &Opened{Used: func(context.Context) (Server, error) {
		used.CPU += time.Second
		used.Wire += 100
		return used, nil
	}}
	m := o.measure(t.Context(), 3, 10, time.Hour, func(_ context.Context, _ uint64, timed timer) (uint64, error) {
		return 5, timed(func() error { return nil })
	})
	if m.err != nil || m.items != 50 || m.calls != 10 || len(m.waits) != 10 {
		t.Errorf("%d items of %d calls, %d timed, %v; want 50 of 10, all timed", m.items, m.calls, len(m.waits), m.err)
	}
	if *m.server != (Server{CPU: time.Second, Wire: 100}) {
		t.Errorf("the server used %+v, want what the first and the last answer differ in", *m.server)
	}
	once := o.measure(t.Context(), 3, 10, -1, func(context.Context, uint64, timer) (uint64, error) { return 1, nil })
	if once.calls == 0 {
		t.Error("no call without time, want one")
	}
	broken := errors.New("broken")
	if failed := o.measure(t.Context(), 3, 10, time.Hour, func(context.Context, uint64, timer) (uint64, error) { return 0, broken }); !errors.Is(failed.err, broken) {
		t.Errorf("error %v, want that of a call", failed.err)
	}
}

func TestQuantile(t *testing.T) {
	m := measured{waits: []time.Duration{1e6, 2e6, 3e6, 4e6}}
	for share, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 4, 1: 4} {
		if got := m.quantile(share); got != want {
			t.Errorf("quantile(%g) = %g, want %g", share, got, want)
		}
	}
}

func TestParseInfo(t *testing.T) {
	used, held, err := parseInfo("# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2\r\ntotal_net_input_bytes:10\r\ntotal_net_output_bytes:5\r\naof_current_size:7\r\naof_buffer_length:3\r\n")
	if want := (Server{3500 * time.Millisecond, 15, 7}); err != nil || used != want || !held {
		t.Errorf("%+v, held %t, %v; want %+v, held", used, held, err, want)
	}
	if _, _, err := parseInfo("used_cpu_sys:1\r\n"); err == nil {
		t.Error("no error without used_cpu_user")
	}
}
