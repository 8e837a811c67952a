package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
)

// session is an open crawl: its store, its output and a worker.
type session struct {
	*plan
	log   *slog.Logger
	store engine
	files recordFiles  // nil: no records are written
	sink  record.Sink  // the same, and that of --out
	warc  *warc.Writer // nil: no answers are kept
	crawl *fetcher.Crawl

	appended *os.File    // of --out; nil: none
	refusals *refusalLog // nil: nobody wants to know
	seedsMu  sync.Mutex  // of seedsFile

	monitor *monitor    // while it runs
	stop    func(error) // ends the run
}

// openSession opens the crawl of a plan, or creates it.
func openSession(ctx context.Context, p *plan, s streams, why purpose) (*session, error) {
	level := p.logLevel
	if p.quiet && (level == "info" || level == "debug") {
		level = "warn"
	}
	ses := &session{plan: p, log: newLogger(s.err, level, p.logFormat)}
	crash, err := crashHook(p.crashAt)
	if err != nil {
		return nil, usage(err)
	}
	if ses.refusals, err = openRefusals(p.refused); err != nil {
		return nil, usage(err)
	}
	stream, err := ses.openStream(s)
	if err != nil {
		return nil, errors.Join(usage(err), ses.closeFiles())
	}
	ses.store, err = p.open(ctx, p, opening{
		purpose: why, log: ses.log, outputs: outputs{ses, crash, stream},
	})
	if err != nil {
		return nil, errors.Join(err, ses.closeFiles())
	}
	keeper := newKeeper(uint64(p.memory), filterBytes(ses.store))
	ses.crawl, err = fetcher.New(fetcher.Config{
		SeedOrigins: why == toSteer, // as 'crawler seed' does, which knows no headers
		Store:       ses.store, Scope: ses.store, Quota: ses.store, Client: p.client, Canon: p.canon, Sink: ses.sink, Worker: p.worker,
		Sitemaps: p.sitemaps, Assets: p.assets, Memory: p.bodies, Archive: ses.archived(),
		Rules:      p.linkRules(),
		Exact:      p.options.exact.Rules,
		Politeness: p.policy(), Hosts: p.hostRules(p.options),
		Concurrency: int(p.concurrency), MaxConnections: p.maxConnections(), Scarce: keeper.scarce,
		HostConcurrency: p.hostConcurrent, Rate: p.rate,
		Retries: orNone(p.retries, fetcher.NoRetries), MaxPages: uint64(p.maxPages), Grace: orNone(requestGrace(p.grace), fetcher.NoGrace),
		FastLinks: p.fastLinks, OnRefused: ses.refusals.onRefused(), Logger: ses.log,
	})
	if err != nil {
		return nil, errors.Join(usage(err), ses.close())
	}
	return ses, nil
}

// outputs open what a crawl writes, which the session closes.
type outputs struct {
	*session
	crash  func(point string)
	stream io.Writer // for --out, nil: to files alone
}

// openStream returns what records are written to beside files; nil: nothing is.
func (ses *session) openStream(s streams) (stream io.Writer, err error) {
	switch ses.out {
	case toFiles, "":
		return nil, nil
	case "-":
		return s.out, nil
	}
	if ses.appended, err = openAppend(ses.out); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return ses.appended, nil
}

// config is how records are written, but for where.
func (o outputs) config() record.Config {
	return record.Config{RotateBytes: int64(o.rotate), Compress: o.compress, Crash: o.crash}
}

// records takes the files of records, and returns the store's output.
func (o outputs) records(files recordFiles) frontier.Output {
	o.files, o.sink = files, files
	if o.stream == nil {
		return files
	}
	tee := record.Tee{Files: files, Stream: record.NewStream(o.stream)}
	o.sink = tee
	return tee
}

// archive opens the files of answers in dir.
func (o outputs) archive(dir string, open func(warc.Config) (*warc.Writer, error)) (frontier.Output, error) {
	w, err := open(o.archiveConfig(dir, o.crash))
	if err != nil {
		return nil, err
	}
	o.warc = w
	return w, nil
}

// archived returns what keeps answers; nil: nothing does.
func (ses *session) archived() fetcher.Archive {
	if ses.save == "none" || ses.warc == nil {
		return nil
	}
	return archive{ses.warc, ses.save == "all"}
}

// linkRules says which links are followed.
func (p *plan) linkRules() fetcher.Rules {
	return fetcher.Rules{Scope: p.scopeMode, Include: p.includeRE, Exclude: p.excludeRE, MaxDepth: p.depth(),
		Trap: p.traps(), MaxHosts: uint64(p.maxHosts)}
}

// orNone turns a zero that was asked for into the constant that says so.
func orNone[T comparable](v, none T) T {
	var zero T
	if v == zero {
		return none
	}
	return v
}

func (ses *session) close() error {
	err := ses.store.Close()
	ses.client.Close()
	return errors.Join(err, ses.closeFiles())
}

func (ses *session) closeFiles() (err error) {
	if ses.files != nil {
		err = ses.files.Close()
	}
	if ses.warc != nil {
		err = errors.Join(err, ses.warc.Close())
	}
	if ses.appended != nil {
		err = errors.Join(err, ses.appended.Close())
	}
	return errors.Join(err, ses.refusals.close())
}

// differences lists what differs, both values of each.
func differences(settings *frontier.SettingsError) string {
	var lines []string
	form := ""
	for _, d := range settings.Differ {
		switch d.Name {
		case formSetting:
			form = fmt.Sprintf("  the canonical form of URLs is %q there, %q here", d.Stored, d.Given)
		case exactSetting:
			lines = append(lines, "  exact keys "+keeperOf(d.Stored)+" there, "+keeperOf(d.Given)+" here")
		case hostsSetting:
			lines = append(lines, fmt.Sprintf("  hosts in the config file are %s there, %s here", d.Stored, d.Given))
		default:
			lines = append(lines, fmt.Sprintf("  --%s is %s there, %s here", d.Name, d.Stored, d.Given))
		}
	}
	if lines == nil { // else it differs because a flag does
		lines = append(lines, form)
	}
	return strings.Join(lines, "\n")
}

// keeperOf says in words who keeps the exact keys.
func keeperOf(exactSet string) string {
	if exactSet == "" {
		return "are in Redis (no --postgres)"
	}
	return "are in Postgres (--postgres)"
}

// crashHook returns what ends the process like kill -9 the N-th time that a
// point named in text is reached; nil without text.
func crashHook(text string) (func(string), error) {
	if text == "" {
		return nil, nil
	}
	point, number, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || point == "" {
		return nil, fmt.Errorf("--crash-at is %q, want POINT:N", text)
	}
	var seen atomic.Int64
	return func(at string) {
		if at == point && seen.Add(1) == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}, nil
}

// socketFile is where a running crawl answers other processes.
const socketFile = "control.sock"

// maxSocketPath is what every system has room for in a socket's address.
const maxSocketPath = 100

// socketAddress returns a path to the socket in dir that a socket's address has
// room for: a long one goes through a link. The caller removes that with release.
func socketAddress(dir string) (name string, release func(), err error) {
	if name = filepath.Join(dir, socketFile); len(name) <= maxSocketPath {
		return name, func() {}, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	short, err := os.MkdirTemp("", "crawler")
	if err != nil {
		return "", nil, err
	}
	release = func() { _ = os.RemoveAll(short) }
	if err := os.Symlink(dir, filepath.Join(short, "dir")); err != nil {
		release()
		return "", nil, err
	}
	return filepath.Join(short, "dir", socketFile), release, nil
}

// dialControl connects to the crawl that runs in dir.
func dialControl(ctx context.Context, dir string) (net.Conn, error) {
	name, release, err := socketAddress(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	var d net.Dialer
	return d.DialContext(ctx, "unix", name)
}
