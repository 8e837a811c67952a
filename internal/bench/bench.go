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
	Servers []report.Server

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
	b := &Bench{Config: config, Dir: dir, Servers: []report.Server{}, noRedis: "no --redis is given", noPostgres: "no --postgres is given"}
	if config.Redis != "" {
		if b.Server, err = sets.OpenRedis(ctx, config.Redis); err != nil {
			b.noRedis = err.Error()
		} else {
			b.Servers = append(b.Servers, report.Server{Name: "Redis", Version: b.Server.Version})
		}
	}
	if config.Postgres != "" {
		version, err := versionOf(ctx, config.Postgres)
		if err != nil {
			b.Postgres, b.noPostgres = "", err.Error()
		} else {
			b.Servers = append(b.Servers, report.Server{Name: "Postgres", Version: version})
		}
	}
	return b, nil
}

func versionOf(ctx context.Context, dsn string) (string, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", fmt.Errorf("connect to Postgres: %w", err)
	}
	return conn.PgConn().ParameterStatus("server_version"), conn.Close(ctx)
}

// Close closes the connections and removes the directory.
func (b *Bench) Close() error {
	err := os.RemoveAll(b.Dir)
	if b.Server != nil {
		err = errors.Join(err, b.Server.Close())
	}
	return err
}

// Sections returns the sections of a measurement.
func (b *Bench) Sections(name string) []*report.Section {
	switch name {
	case "fpr":
		return []*report.Section{b.fpr()}
	case "speed":
		return []*report.Section{b.seen(), b.frontier()}
	default:
		return []*report.Section{b.memory()}
	}
}

// rates returns the false-positive rate of the configuration. If it has none, rates returns the
// defaults.
func (b *Bench) rates(defaults ...float64) []float64 {
	if b.FPR != 0 {
		return []float64{b.FPR}
	}
	return defaults
}

// lacking adds to a section the parts that need a server which is not there. An empty name
// means that there is no such part.
func (b *Bench) lacking(s *report.Section, redis, bloom, postgres string) *report.Section {
	if redis != "" && b.Server == nil {
		s.Miss(redis, b.noRedis)
	}
	if bloom != "" && b.Server != nil && !b.Server.HasBloom {
		s.Miss(bloom, "this Redis has no Bloom module")
	}
	if postgres != "" && b.Postgres == "" {
		s.Miss(postgres, b.noPostgres)
	}
	return s
}

func (b *Bench) fpr() *report.Section {
	all := []fpr.Subject{fpr.Memory(), fpr.Exact(sets.Local(b.Dir))}
	if b.Server != nil {
		all = append(all, fpr.Exact(sets.RedisStore(b.Server)), fpr.Redis(b.Server))
	}
	if b.Postgres != "" {
		all = append(all, fpr.Exact(sets.Postgres(b.Postgres)))
	}
	s := fpr.Section(fpr.Config{Keys: b.Keys, Seed: b.Seed, Subjects: all, Rates: b.rates()})
	return b.lacking(s, "redisbits and redisstore", "", "pgstore")
}

func (b *Bench) memory() *report.Section {
	rates := b.rates(0.01, 1e-4, 1e-6)
	all := memory.InHeap(rates)
	if b.Server != nil {
		all = append(all, memory.InRedis(b.Server, rates)...)
	}
	all = append(all, memory.OnDisk(b.Dir)...)
	if b.Postgres != "" {
		all = append(all, memory.InPostgres(b.Postgres)...)
	}
	s := memory.Section(memory.Config{Keys: b.Keys, Subjects: all})
	return b.lacking(s, "all that is kept in Redis", "BF.RESERVE", "all that is kept in Postgres")
}

func (b *Bench) seen() *report.Section {
	all := []sets.Kind{sets.Memory(), sets.Local(b.Dir)}
	if b.Server != nil {
		all = append(all, sets.RedisFilter(b.Server), sets.RedisStore(b.Server), sets.RedisSet(b.Server, false))
		if b.Server.HasBloom {
			all = append(all, sets.RedisBloom(b.Server))
		}
	}
	if b.Postgres != "" {
		all = append(all, sets.Postgres(b.Postgres))
	}
	return b.lacking(speed.Seen(speed.Config{Keys: b.Keys, Sets: all}), "redisbits and redisstore, SADD and BF.MADD", "BF.MADD", "pgstore")
}

func (b *Bench) frontier() *report.Section {
	all := []sets.Kind{sets.Local(b.Dir)}
	if b.Server != nil {
		all = append(all, sets.RedisStore(b.Server))
	}
	return b.lacking(speed.Frontier(speed.Config{Keys: b.Keys, Sets: all}), "redisstore", "", "")
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

// verdict returns the error of a run, or nil. The argument measured is the error of the
// measurements. The returned error lists the broken promises. It also contains the error of
// the measurements, unless ctx ended the run. If ctx ended the run and no promise is broken,
// verdict returns the error of ctx.
func verdict(ctx context.Context, r *report.Report, measured error) error {
	broken := r.Broken()
	switch {
	case ctx.Err() != nil && len(broken) == 0:
		return ctx.Err()
	case ctx.Err() != nil:
		measured = nil
	}
	if len(broken) == 0 {
		return measured
	}
	return errors.Join(fmt.Errorf("%s broken:\n  %s", human.Plural(uint64(len(broken)), "promise"), strings.Join(broken, "\n  ")), measured)
}
