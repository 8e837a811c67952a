package serve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/settings"
)

// Bounds of the settings of a caller. Regular expressions are those of package regexp, whose time is linear in their length
// and that of the text.
const (
	maxTexts   = 200
	maxText    = 1024 // bytes of one NAME=VALUE
	maxURLs    = 100_000_000
	leastFPR   = 1e-9
	settingsAt = "body.settings"
)

// callers are the settings that callers set and see. The operator sets the others: they concern the machine, lift a guard,
// name files, or are not stored.
var callers = []string{
	"allow-series", "assets", "backoff", "backoff-max", "bandwidth", "check-external", "compress", "concurrency", "contact", "content-use",
	"cookie-jar", "dead-after", "delay", "domain-rate", "drop", "exact", "exclude", "feeds", "field", "fpr", "growth", "header-timeout",
	"host-concurrency", "hosts", "include", "keep-param", "latency-factor", "links", "logged-out", "max-body", "max-crawl-delay",
	"max-depth", "max-external", "max-hosts-per-domain", "max-pages", "max-params", "max-path-repeats", "max-per-host", "max-time",
	"max-url-bytes", "max-years-ahead", "min-rate", "pause", "preferences", "rate", "retries", "robots", "rotate", "save", "scope",
	"sitemaps", "skip-duplicates", "sort-query", "strip-param", "text", "timeout", "types", "urls", "user-agent", "window",
}

// open reports whether a caller may set and see a setting.
func open(row *settings.Row) bool { return slices.Contains(callers, row.Name) }

// nameOf returns the name of the setting that a text NAME=VALUE changes.
func nameOf(text string) string {
	name, _, _ := strings.Cut(text, "=")
	if name, _, found := strings.Cut(name, ":"); found && name == "hosts" {
		return name
	}
	return strings.TrimRight(name, "+-")
}

// checkTexts returns a problem if a caller may not set the settings of texts.
func checkTexts(texts []string) error {
	p := newProblem("invalid", "settings cannot be set so")
	if len(texts) > maxTexts {
		p.Errors = append(p.Errors, fault{fmt.Sprintf("%d texts, want %d at most", len(texts), maxTexts), settingsAt})
	}
	for i, text := range texts[:min(len(texts), maxTexts)] {
		at := fmt.Sprintf("%s[%d]", settingsAt, i)
		switch row := settings.Find(nameOf(text)); {
		case len(text) > maxText:
			p.Errors = append(p.Errors, fault{fmt.Sprintf("%d bytes, want %d at most", len(text), maxText), at})
		case row == nil || !strings.Contains(text, "="):
			p.Errors = append(p.Errors, fault{"want NAME=VALUE with the name of a setting", at})
		case !open(row):
			p.Errors = append(p.Errors, fault{"only the operator of the server sets " + row.Name, at})
		}
	}
	if p.Errors != nil {
		return p
	}
	return nil
}

// config returns the configuration of a run of a crawl. A new crawl gets all settings of its card, except those in later,
// with which its policy is changed, because a crawl does not keep them. A crawl that exists has its settings stored, except
// those of this machine and of each run.
func (f *fleet) config(c *card, isNew bool) (cfg crawl.Config, later []string, err error) {
	var given []string
	s, plain := f.cfg.Settings, settings.Default()
	for _, row := range settings.Rows() {
		inPolicy := row.Kept == settings.Never && row.Who == settings.Live // a crawl keeps it only if its policy was changed
		if set := row.Value(&s).Stored(); inPolicy && set != row.Value(&plain).Stored() {
			later = append(later, row.Assignment(set)...)
		}
		if inPolicy || !isNew && row.Kept != settings.Here && row.Kept != settings.Never {
			if err := row.Value(&s).Adopt(row.Default); err != nil {
				return cfg, nil, err
			}
		}
	}
	if !isNew {
		s.Agent = crawl.DefaultSettings().Agent
	}
	for _, text := range c.Settings {
		row := settings.Find(nameOf(text))
		switch {
		case row == nil:
			return cfg, nil, fmt.Errorf("serve: setting %.80q of crawl %s is unknown", text, c.Name)
		case row.Kept == settings.Never && row.Who == settings.Live:
			later = append(later, text)
		case isNew || row.Kept == settings.Never:
			given = append(given, text)
		}
	}
	if errs := s.AssignNew(given); errs != nil {
		return cfg, nil, &crawl.ConfigError{Faults: errs}
	}
	at := f.runner.at(c.Name)
	cfg = crawl.Config{
		Dir: at.Dir, Redis: at.Redis, Postgres: at.Postgres, SeedsText: "seeds of the API", Settings: s, Gate: f.gate,
		Memory: f.cfg.Memory / int64(f.cfg.MaxRunning), Scarce: f.cfg.Scarce, Logger: f.cfg.Logger.With("crawl", c.Name),
	}
	if isNew {
		for _, text := range given {
			cfg.Given = append(cfg.Given, nameOf(text))
		}
	}
	return cfg, later, nil
}

// checkNew returns an error that names the faults of the settings of a new crawl.
func (f *fleet) checkNew(c *card) error {
	if err := checkTexts(c.Settings); err != nil {
		return err
	}
	cfg, later, err := f.config(c, true)
	if err != nil {
		return err
	}
	var errs []error
	if cfg.Settings.Capacity > maxURLs || cfg.Settings.FPR < leastFPR {
		errs = append(errs, fmt.Errorf("urls is %d and fpr is %g, want at most %d and at least %g",
			cfg.Settings.Capacity, cfg.Settings.FPR, maxURLs, leastFPR))
	}
	all := cfg.Settings
	errs = append(errs, all.Assign(later)...)
	if errs = append(errs, all.Check()...); errors.Join(errs...) != nil {
		return &crawl.ConfigError{Faults: slices.DeleteFunc(errs, func(err error) bool { return err == nil })}
	}
	return cfg.Validate()
}
