// Package bench does what `crawler bench` does: it opens the servers that are measured, makes
// the sections of the report, runs them, and prints the report.
//
// Packages fpr, speed and memory own the measurements, and package report their frame.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9/logging"

	"github.com/bloomfrontier/crawler/internal/bench/fpr"
	"github.com/bloomfrontier/crawler/internal/bench/memory"
	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/internal/bench/speed"
	"github.com/bloomfrontier/crawler/internal/human"
)

// Names are the measurements, in the order in which they run.
var Names = []string{"fpr", "speed", "memory"}

// Config says what is measured.
type Config struct {
	Redis    string  // URL of a single server; empty means none, also for Postgres
	Postgres string  // URL of a database
	Keys     uint64  // of the largest measurement; 0 means the defaults of the measurements
	FPR      float64 // of the filters; 0 means several
	Seed     uint64  // of random keys
}

// Bench is what a run measures: a Redis, a Postgres, and a directory.
type Bench struct {
	Config
	Server  *sets.Redis // nil means none
	Dir     string      // for stores on disk
	Servers []string    // their names and versions

	noRedis, noPostgres string // why there is none
}

// Open connects to the servers. If that fails, the sections of the report say why. The caller
// must call Close.
func Open(ctx context.Context, config Config) (*Bench, error) {
	logging.Disable() // go-redis also returns the errors that it prints
	dir, err := os.MkdirTemp("", "crawler-bench-")
	if err != nil {
		return nil, err
	}
	b := &Bench{Config: config, Dir: dir, noRedis: "no --redis is given", noPostgres: "no --postgres is given"}
	if config.Redis != "" {
		if b.Server, err = sets.OpenRedis(ctx, config.Redis); err != nil {
			b.noRedis = err.Error()
		} else {
			b.Servers = append(b.Servers, "Redis "+b.Server.Version)
		}
	}
	if config.Postgres != "" {
		if conn, err := pgx.Connect(ctx, config.Postgres); err != nil {
			b.Postgres, b.noPostgres = "", "connect to Postgres: "+err.Error()
		} else {
			b.Servers = append(b.Servers, "Postgres "+conn.PgConn().ParameterStatus("server_version"))
			_ = conn.Close(ctx) // only the version is of interest
		}
	}
	return b, nil
}

// Close closes the connections and removes the directory.
func (b *Bench) Close() error {
	err := os.RemoveAll(b.Dir)
	if b.Server != nil {
		err = errors.Join(err, b.Server.Close())
	}
	return err
}

// Sections returns the sections of a measurement. They list the parts that need a server which
// is not there.
func (b *Bench) Sections(name string) []*report.Section {
	stores := []sets.Kind{sets.Local(b.Dir)} // with a queue
	seen := []sets.Kind{sets.Memory(), stores[0]}
	subjects := []fpr.Subject{fpr.Memory(), fpr.Exact(stores[0])}
	rates, few := []float64(nil), []float64{0.01, 1e-4, 1e-6}
	if b.FPR != 0 {
		rates = []float64{b.FPR}
		few = rates
	}
	weighed := memory.InHeap(few)
	if b.Server != nil {
		store := sets.RedisStore(b.Server)
		stores = append(stores, store)
		seen = append(seen, sets.RedisFilter(b.Server), store, sets.RedisSet(b.Server, false))
		subjects = append(subjects, fpr.Exact(store), fpr.Redis(b.Server))
		weighed = append(weighed, memory.InRedis(b.Server, few)...)
	}
	weighed = append(weighed, memory.OnDisk(b.Dir)...)
	if b.Postgres != "" {
		set := sets.Postgres(b.Postgres)
		seen, subjects = append(seen, set), append(subjects, fpr.Exact(set))
		weighed = append(weighed, memory.InPostgres(b.Postgres)...)
	}
	var all []*report.Section
	switch name {
	case "fpr":
		all = []*report.Section{fpr.Section(fpr.Config{Keys: b.Keys, Rates: rates, Seed: b.Seed, Subjects: subjects})}
	case "speed":
		all = []*report.Section{speed.Seen(b.Keys, seen), speed.Frontier(b.Keys, stores)}
	case "memory":
		all = []*report.Section{memory.Section(b.Keys, weighed)}
	}
	for _, s := range all {
		if b.Server == nil {
			s.Miss("all that is in Redis", b.noRedis)
		}
		if b.Postgres == "" && s.Name != "frontier" { // the queue of a crawl is never in Postgres
			s.Miss("all that is in Postgres", b.noPostgres)
		}
	}
	return all
}

// Reported wraps the error of a run that has printed its whole report.
type Reported struct{ error }

func (r Reported) Unwrap() error { return r.error }

// Run runs the steps of a report, with a line about each on progress, and prints the report to
// out. It writes the report to dir after each step, unless dir is empty. The error lists broken
// promises.
func Run(ctx context.Context, r *report.Report, dir string, asJSON bool, out, progress io.Writer) error {
	write := func() error {
		r.Took = time.Since(r.Began).Seconds()
		if dir == "" {
			return nil
		}
		return r.Write(dir)
	}
	measured := r.Run(ctx, func(line string) {
		fmt.Fprintln(progress, line)
		_ = write() // the write at the end returns the error
	})
	err := write()
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = errors.Join(err, encoder.Encode(r))
	} else {
		_, printed := io.WriteString(out, r.Markdown())
		err = errors.Join(err, printed)
	}
	result := verdict(ctx, r, measured)
	if err == nil && result != nil {
		return Reported{result}
	}
	return errors.Join(err, result)
}

// verdict returns the error of a run: the broken promises, and measured, the error of the
// measurements. If a promise is broken, verdict leaves out that ctx ended the run.
func verdict(ctx context.Context, r *report.Report, measured error) error {
	broken := r.Broken()
	if len(broken) == 0 {
		return measured
	}
	if ctx.Err() != nil {
		measured = nil
	}
	return errors.Join(fmt.Errorf("%s broken:\n  %s", human.Plural(uint64(len(broken)), "promise"), strings.Join(broken, "\n  ")), measured)
}
