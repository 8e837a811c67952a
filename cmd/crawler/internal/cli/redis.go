package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
)

// sharedHome is the home of a crawl that workers share in a Redis.
type sharedHome struct {
	sharedFlags
	options *redis.UniversalOptions
	where   string // the URL without its secrets
	dir     string // what has the directories of workers; empty: NAME.crawl
	id      string // of the crawl, once it was opened
}

var _ home = (*sharedHome)(nil)

func newSharedHome(flags sharedFlags, password string) (*sharedHome, error) {
	logging.Disable() // what go-redis prints by itself it returns as well
	options, err := redisstore.ParseURL(flags.redis)
	if err == nil && flags.redisCA != "" {
		if options.TLSConfig == nil {
			return nil, errors.New("--redis-ca is for a rediss:// URL")
		}
		options.TLSConfig, err = redisstore.TLSConfig(flags.redisCA)
	}
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	if password != "" {
		options.Password = password
	}
	return &sharedHome{sharedFlags: flags, options: options, where: withoutSecrets(flags.redis)}, nil
}

// withoutSecrets returns a URL without its user and its query. A password may
// have any character: whatever stands before an @ goes.
func withoutSecrets(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest[strings.LastIndexByte(rest, '@')+1:], "?")
	return scheme + "://" + rest
}

// card is what the directories of the crawl's workers have.
func (h *sharedHome) card() workerCard { return workerCard{workerFormat, h.name, h.id} }

// ownsAll refuses workers' directories of other crawls.
func (h *sharedHome) ownsAll(dirs []string) (err error) {
	for _, dir := range dirs {
		_, fault := h.card().check(dir)
		err = errors.Join(err, fault)
	}
	return err
}

// shelf returns the directory that has those of workers.
func (h *sharedHome) shelf() string { return cmp.Or(h.dir, journalsOf(h.name)) }

func (h *sharedHome) title() string      { return h.name + " on " + h.where }
func (h *sharedHome) keeper() string     { return "redis" }
func (h *sharedHome) engineName() string { return "Redis" }

func (h *sharedHome) arguments() []string {
	line := []string{"--redis", shellQuote(h.where), "--name", h.name}
	for _, file := range []struct{ flag, name string }{{"--redis-ca", h.redisCA}, {"--redis-password-file", h.passwordFile}} {
		if file.name != "" {
			line = append(line, file.flag, shellQuote(file.name))
		}
	}
	return line
}

// config is how the crawl is reached.
func (h *sharedHome) config() redisstore.Config {
	return redisstore.Config{Redis: h.options, Name: h.name}
}

// fixed implements home.
func (h *sharedHome) fixed(ctx context.Context) (frontier.Settings, error) {
	settings, err := redisstore.StoredSettings(ctx, h.config())
	if errors.Is(err, redisstore.ErrNoCrawl) {
		return nil, nil
	}
	if err != nil {
		return nil, h.explain(err)
	}
	return settings, nil
}

// open implements home.
func (h *sharedHome) open(ctx context.Context, p *plan, o opening) (engine, error) {
	config := h.config()
	config.Delay, config.LeaseTTL = orNone(p.delay, redisstore.NoDelay), p.leaseTTL()
	config.MaxPerHost, config.MaxQueued, config.Hosts = uint64(p.maxPerHost), uint64(p.maxQueued), p.sharedLimits
	config.Logger, config.Crash = o.log, o.crash
	if o.purpose == toRebuild {
		if err := h.rebuild(ctx, o.log); err != nil {
			return nil, err
		}
	}
	if o.purpose != toCrawl {
		store, err := redisstore.Inspect(ctx, config)
		if err != nil {
			return nil, h.explain(err)
		}
		h.id = store.ID()
		return &sharedEngine{store, h}, nil
	}
	config.Settings = p.settings(p.canon.Form(), sharedFixed...)
	config.FilterKeys, config.FPR, config.NoGrowth = uint64(p.urls), float64(p.fpr), !bool(p.growth)
	p.worker = cmp.Or(p.worker, newWorkerName())
	config.Partitions, config.Wait, config.Worker = p.partitions, p.redisWait, p.worker
	output := new(lateOutput)
	config.Output = output
	store, err := redisstore.Open(ctx, config)
	if err != nil {
		return nil, h.explain(err)
	}
	h.id = store.ID()
	err = h.openOutput(p, o.outputs, output)
	if err != nil {
		return nil, &exitError{exitFailed, errors.Join(err, store.Close())}
	}
	return &sharedEngine{store, h}, nil
}

// openOutput opens the journal of a worker, whose directory it may choose, and
// the answers beside it.
func (h *sharedHome) openOutput(p *plan, o outputs, output *lateOutput) error {
	config, answers := o.config(), new(lateOutput)
	if p.save != "none" {
		config.Archive = answers
	}
	journal, dir, err := h.card().openJournal(p.dir, config)
	if err != nil {
		return err
	}
	p.dir, output.Output = dir, o.records(journal)
	if p.save != "none" { // now that the directory is nobody else's
		answers.Output, err = o.archive(dir, warc.OpenWhole)
	}
	return err
}

// rebuild makes the filter anew, by the records of all workers.
func (h *sharedHome) rebuild(ctx context.Context, log *slog.Logger) error {
	dirs, err := findJournals([]string{h.shelf()})
	if err == nil {
		err = oneCrawl(dirs)
	}
	if err != nil {
		return usage(fmt.Errorf("the records of all workers are wanted: %w", err))
	}
	made, err := redisstore.Rebuild(ctx, h.config(), recorded(merged{ctx: ctx, dirs: dirs}))
	if err != nil {
		return h.explain(err)
	}
	if made.Partitions > 0 {
		log.Warn("counters were lost too, and begin at zero", slog.Int("partitions", made.Partitions))
	}
	return nil
}

// recorded are the URLs that records are of.
func recorded(records recordSource) iter.Seq2[redisstore.Known, error] {
	return func(yield func(redisstore.Known, error) bool) {
		for line, err := range records.Lines() {
			var r struct{ URL, Host string }
			if err == nil {
				err = json.Unmarshal(line, &r)
			}
			if !yield(redisstore.Known{Host: r.Host, URL: r.URL}, err) || err != nil {
				return
			}
		}
	}
}

// newWorkerName names this process: HOST-PID-RANDOM.
func newWorkerName() string {
	host, _ := os.Hostname()
	host = plainName(host)
	return fmt.Sprintf("%s-%d-%04x", host[:min(len(host), maxWorkerName-16)], os.Getpid(), rand.Uint32()&0xffff)
}

// lateOutput is an output that is opened after what writes to it: a store before
// the records, for it knows which directories are the crawl's; the records before
// the answers, for they keep others out of the directory.
type lateOutput struct{ frontier.Output }

// explain says what to do about a crawl that cannot be opened.
func (h *sharedHome) explain(err error) error {
	var settings *frontier.SettingsError
	switch {
	case errors.As(err, &settings):
		return usage(fmt.Errorf("%s was created with other settings, which are fixed:\n%s\n"+
			"leave them out to join it, or begin another crawl with another --name", h.title(), differences(settings)))
	case errors.Is(err, redisstore.ErrNoCrawl):
		return usage(errors.New(place{home: h}.missing()))
	}
	return &exitError{exitFailed, fmt.Errorf("%s: %w", h.title(), place{home: h}.withRemedy(err))}
}

func (l *layers) sharedLimits(host string) redisstore.HostLimits {
	delay, most := l.hostLimits(host)
	return redisstore.HostLimits{Delay: delay, MaxPerHost: most}
}
