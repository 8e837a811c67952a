package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/exact"
	"github.com/bloomfrontier/crawler/frontier/pgstore"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
)

// sharedHome is the home of a crawl that workers share in a Redis.
type sharedHome struct {
	sharedFlags
	options *redis.UniversalOptions
	where   string    // the URL without its secrets
	dir     string    // what has the directories of workers; empty: NAME.crawl
	id      string    // of the crawl, once it was opened
	db      *database // that has its exact keys; nil: nobody named one
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

func (h *sharedHome) arguments(readsConfig bool) (line []string) {
	shown, _ := shownRedis(h.redis)
	for _, flag := range []struct{ name, value string }{
		{"redis", shown}, {"name", h.name}, {"redis-ca", h.redisCA}, {"redis-password-file", h.passwordFile},
	} {
		if flag.value != "" && h.repeated(flag.name, readsConfig) {
			line = append(line, "--"+flag.name, shellQuote(flag.value))
		}
	}
	return append(line, h.db.arguments(readsConfig)...)
}

// config is how the crawl is reached.
func (h *sharedHome) config() redisstore.Config {
	return redisstore.Config{Redis: h.options, Name: h.name}
}

// fixed implements home.
func (h *sharedHome) fixed(ctx context.Context) (frontier.Settings, error) {
	settings, err := redisstore.StoredSettings(ctx, h.config())
	if errors.Is(err, redisstore.ErrNoCrawl) {
		return h.lost(ctx)
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
	learnt := newMemory(p)
	if o.purpose == toRebuild {
		if err := h.rebuild(ctx, p, learnt, o.log); err != nil {
			return nil, err
		}
	}
	if o.purpose != toCrawl {
		store, err := redisstore.Inspect(ctx, config)
		if err != nil {
			return nil, h.explain(err)
		}
		if err := learnt.restore(ctx, store); err != nil {
			return nil, errors.Join(h.explain(err), store.Close())
		}
		return h.look(ctx, p, store, o)
	}
	if h.db == nil && p.stored[exactSetting] != "" {
		return nil, h.errNoTier()
	}
	config.Settings = p.settings(p.canon.Form(), sharedFixed...)
	if config.ExactSet = h.db != nil; config.ExactSet {
		config.Settings = p.settings(p.canon.Form(), slices.Concat(sharedFixed, tierFixed)...)
		config.Settings[exactSetting] = "postgres"
	}
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
	e := &sharedEngine{Store: store, home: h, log: o.log, rows: p.sink == sinkPostgres}
	if err := e.work(ctx, p, o, output); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// look opens what stands beside a crawl that is asked or steered. Where Postgres
// is needed whoever needs it says so.
func (h *sharedHome) look(ctx context.Context, p *plan, store *redisstore.Store, o opening) (engine, error) {
	h.id = store.ID()
	e := &sharedEngine{Store: store, home: h, log: o.log, rows: p.sink == sinkPostgres, exactElsewhere: p.stored[exactSetting] != ""}
	if h.db == nil || !e.exactElsewhere {
		return e, nil
	}
	keys, err := h.db.inspect(ctx, h.name)
	if errors.Is(err, frontier.ErrUnavailable) {
		o.log.Warn("no word of exact keys", slog.Any("err", err))
		return e, nil
	}
	if err == nil {
		e.tier, err = p.newTier(store, keys, exact.NewBreaker(keys, 0), nil, o)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// work opens what a worker has beside the queue: its exact keys, its records.
func (e *sharedEngine) work(ctx context.Context, p *plan, o opening, output *lateOutput) error {
	if e.home.db == nil {
		_, err := e.home.openOutput(p, o.outputs, output, nil)
		return err
	}
	card, err := e.Card()
	if err != nil {
		return err
	}
	keys, err := e.home.db.open(ctx, p, pgstore.Config{Crawl: e.home.name, Identity: e.ID(), Windows: p.windows, Card: card})
	if err != nil {
		return err
	}
	set := exact.NewBreaker(keys, 0)
	e.tier = &tier{set: keys} // closed with the engine from now on
	told, err := e.home.openOutput(p, o.outputs, output, set)
	if err != nil {
		return err
	}
	made, err := p.newTier(e.Store, keys, set, told, o)
	if err == nil {
		e.tier = made
	}
	return err
}

// openOutput opens the journal of a worker, whose directory it may choose, and
// the answers beside it. With a set it returns the output that tells this what
// became of exact items, before whose records or, with --sink postgres, with
// these: the journal only keeps others out of the directory then.
func (h *sharedHome) openOutput(p *plan, o outputs, output *lateOutput, set *exact.Breaker) (told *exact.Output, err error) {
	config, answers := o.config(), new(lateOutput)
	inRows := set != nil && p.sink == sinkPostgres
	if p.save != "none" && !inRows {
		config.Archive = answers
	}
	journal, dir, err := h.card().openJournal(p.dir, config)
	if err != nil {
		return nil, &exitError{exitFailed, err}
	}
	p.dir = dir
	if p.save != "none" { // now that the directory is nobody else's
		if answers.Output, err = o.archive(dir, openWorkerArchive); err != nil {
			return nil, &exitError{exitFailed, errors.Join(err, journal.Close())}
		}
	}
	switch {
	case inRows:
		beside := exact.OutputConfig{Set: set, Rows: true, Crash: o.crash}
		if p.save != "none" {
			beside.Files = answers
		}
		told = exact.NewOutput(beside)
		output.Output = o.records(rowFiles{rowSink{told}, journal})
	case set != nil:
		told = exact.NewOutput(exact.OutputConfig{Set: set, Files: o.records(journal), Crash: o.crash})
		output.Output = told
	default:
		output.Output = o.records(journal)
	}
	return told, nil
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
