package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lmittmann/tint"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// session is an open crawl: its store, its output and a worker.
type session struct {
	o      *options
	dir    string
	log    *slog.Logger
	client *get.Client
	store  *localstore.Store
	files  *record.Files
	crawl  *fetcher.Crawl
}

// openSession opens the crawl in dir, or creates it.
func openSession(o *options, l *layers, c checked, dir string, s streams,
	open func(localstore.Config) (*localstore.Store, error)) (*session, error) {
	log := newLogger(s.err, o.logLevel)
	crash, err := crashHook(o.crashAt)
	if err != nil {
		return nil, usage(err)
	}
	ses := &session{o: o, dir: dir, log: log}
	ses.client, err = get.New(get.Config{
		UserAgent: o.agent(), Headers: c.headers, Timeout: o.timeout, MaxBodyBytes: int64(o.maxBody), Types: o.types,
		ConnectTo: c.connectTo, AllowPrivate: o.private, MaxIdleConnsPerHost: max(o.hostConcurrent, 2),
	})
	if err != nil {
		return nil, usage(err)
	}
	var sink record.Sink
	ses.store, err = open(localstore.Config{
		Dir: dir, Settings: l.settings(c.canon.Form()), Filter: o.filter(),
		Delay: orNone(o.delay, localstore.NoDelay), LeaseTTL: max(time.Minute, 2*o.timeout+10*time.Second),
		MaxPerHost: o.maxPerHost, Hosts: l.hostLimits, CheckpointAdds: o.checkpoint, Crash: crash, Logger: log,
		OpenOutput: func(position frontier.Position) (frontier.Output, error) {
			ses.files, err = record.Open(record.Config{
				Dir: dir, RotateBytes: int64(o.rotate), Compress: o.compress, Crash: crash,
			}, position)
			if err != nil {
				return nil, err
			}
			if o.out == "-" {
				tee := record.Tee{Files: ses.files, Stream: record.NewStream(s.out)}
				sink = tee
				return tee, nil
			}
			sink = ses.files
			return ses.files, nil
		},
	})
	if err != nil {
		return nil, openError(dir, err)
	}
	ses.crawl, err = fetcher.New(fetcher.Config{
		Store: ses.store, Scope: ses.store, Client: ses.client, Canon: c.canon, Sink: sink,
		Rules:      fetcher.Rules{Scope: c.scope, Include: c.include, Exclude: c.exclude, MaxDepth: o.depth()},
		Politeness: o.policy(), Hosts: l.hostRules(o), UserAgent: o.agent(),
		Concurrency: o.concurrency, HostConcurrency: o.hostConcurrent, Rate: o.rate,
		Retries: orNone(o.retries, fetcher.NoRetries), MaxPages: o.maxPages, Grace: o.grace,
		FastLinks: o.fastLinks, Logger: log,
	})
	if err != nil {
		return nil, errors.Join(usage(err), ses.close())
	}
	return ses, nil
}

// orNone turns a zero that was asked for into the constant that says so.
func orNone[T comparable](v, none T) T {
	var zero T
	if v == zero {
		return none
	}
	return v
}

func (o *options) filter() membits.Config {
	growth := membits.GrowthOn
	if !o.growth {
		growth = membits.GrowthOff
	}
	return membits.Config{Capacity: uint64(o.urls), FPR: float64(o.fpr), Growth: growth, Shards: 64}
}

func (ses *session) close() error {
	err := ses.store.Close()
	if ses.files != nil {
		err = errors.Join(err, ses.files.Close())
	}
	ses.client.Close()
	return err
}

// openError says what to do about a directory that cannot be opened.
func openError(dir string, err error) error {
	var settings *frontier.SettingsError
	switch {
	case errors.As(err, &settings):
		var b strings.Builder
		fmt.Fprintf(&b, "%s was created with other settings, which are fixed:", dir)
		for _, d := range settings.Differ {
			fmt.Fprintf(&b, "\n  --%s is %s there, %s here", d.Name, d.Stored, d.Given)
		}
		b.WriteString("\nleave them out to resume, or begin another crawl with another --dir")
		return usage(errors.New(b.String()))
	case errors.Is(err, frontier.ErrLocked):
		return &exitError{exitFailed, fmt.Errorf("%s is in use by another crawler", dir)}
	case errors.Is(err, frontier.ErrFilterLost):
		return &exitError{exitFailed, fmt.Errorf("%w\n'crawler rebuild --dir %s' makes the filter anew", err, dir)}
	}
	return &exitError{exitFailed, err}
}

// matchHost returns what the config file says of a host key, or nil.
func (l *layers) matchHost(host string) *hostPattern {
	for i := range l.hosts {
		if ok, _ := path.Match(l.hosts[i].Pattern, host); ok {
			return &l.hosts[i]
		}
	}
	return nil
}

func (l *layers) hostLimits(host string) localstore.HostLimits {
	if h := l.matchHost(host); h != nil {
		return localstore.HostLimits{Delay: h.Delay, MaxPerHost: h.Budget}
	}
	return localstore.HostLimits{}
}

func (l *layers) hostRules(o *options) func(string) fetcher.HostRules {
	general := fetcher.HostRules{IgnoreRobots: o.robots == "ignore"}
	return func(host string) fetcher.HostRules {
		h := l.matchHost(host)
		if h == nil {
			return general
		}
		rules := general
		rules.HostConcurrency = h.Concurrency
		if h.Robots != "" {
			rules.IgnoreRobots = h.Robots == "ignore"
		}
		for name, value := range h.Headers {
			if rules.Header == nil {
				rules.Header = make(map[string][]string)
			}
			rules.Header[name] = []string{value}
		}
		if h.Delay > 0 {
			policy := o.policy()
			policy.Delay = h.Delay
			if o.delay == 0 {
				policy.LatencyFactor = politeness.NoLatencyFactor
			}
			rules.Politeness = &policy
		}
		return rules
	}
}

func newLogger(w io.Writer, level string) *slog.Logger {
	var lvl slog.Level
	_ = lvl.UnmarshalText([]byte(level))
	if isTerminal(w) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: lvl, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: lvl}))
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

const socketFile = "control.sock"

// socketAddress returns a path to the socket in dir that fits into the 108
// bytes that the kernel has for one, and what to call when it is not needed
// any more.
func socketAddress(dir string) (string, func(), error) {
	name := filepath.Join(dir, socketFile)
	if len(name) < 100 {
		return name, func() {}, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), socketFile), func() { d.Close() }, nil
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
