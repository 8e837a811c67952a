package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/name"
)

// sharedFlags are the flags of a crawl in Redis and of the connection to it.
type sharedFlags struct {
	redis        string // may contain a secret: see withoutSecret
	name         string
	redisCA      string
	passwordFile string
	postgresFlags
}

// connectionFlags are the names of the flags in sharedFlags.
var connectionFlags = append([]string{"redis", "name", "redis-ca", "redis-password-file"}, postgresNames...)

// serverFlags are the names of the flags that addServerTo declares.
var serverFlags = []string{"redis", "redis-ca", "redis-password-file"}

func (f *sharedFlags) addTo(flags *pflag.FlagSet) {
	f.addServerTo(flags)
	flags.StringVar(&f.name, "name", "", "the crawl's `NAME` in that Redis")
	f.postgresFlags.addTo(flags)
	restrict.Check(flags, "name", func(text string) error {
		if !name.OfCrawl(text) {
			return errors.New("want " + name.Form)
		}
		return nil
	})
}

// addServerTo declares the flags that select a Redis.
func (f *sharedFlags) addServerTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.redis, "redis", "", "`URL` of the Redis that workers share the crawl in: redis://[USER:PASSWORD@]HOST[:PORT][,HOST...], rediss:// with TLS, redis+sentinel://HOST[:PORT][,HOST...]/MASTER, unix:///PATH")
	flags.StringVar(&f.redisCA, "redis-ca", "", "trust the certificates in `FILE`, with rediss://")
	flags.StringVar(&f.passwordFile, "redis-password-file", "", "read the password from `FILE`")
	restrict.Check(flags, "redis", func(text string) error {
		if _, err := redisstore.ParseURL(text); err != nil {
			return fmt.Errorf("want redis://[USER:PASSWORD@]HOST[:PORT][,HOST...], rediss:// with TLS, redis+sentinel://HOST[:PORT][,HOST...]/MASTER or unix:///PATH: %w", err)
		}
		return nil
	})
}

// wanted returns the location of the crawl in Redis that the flags or the environment
// select. If they select none, at.Redis is nil.
func (f *sharedFlags) wanted(flags *pflag.FlagSet) (at location, err error) {
	if err = f.adoptEnvironment(flags, connectionFlags); err == nil {
		at, err = f.location("")
	}
	if err != nil {
		return location{}, usage(err)
	}
	return at, nil
}

// location returns the location of the crawl: in the Redis that the flags select, or else
// in the directory dir.
func (f *sharedFlags) location(dir string) (location, error) {
	at := location{crawl.Location{Dir: dir}, f}
	var errs []error
	switch {
	case f.redis == "" && f.name == "":
		if f.redisCA != "" || f.passwordFile != "" {
			return location{}, errors.New("--redis-ca and --redis-password-file need --redis")
		}
	case f.name == "":
		errs = append(errs, errors.New("--redis needs --name, the name of the crawl"))
	case f.redis == "":
		errs = append(errs, errors.New("--name needs --redis, the address of the server"))
	}
	if f.redis != "" {
		password, err := readPassword("redis-password-file", f.passwordFile)
		errs = append(errs, err, f.checkCA())
		at.Redis = &crawl.Redis{URL: f.redis, Name: f.name, Password: password, CAFile: f.redisCA}
	}
	postgres, err := f.database()
	at.Postgres = postgres
	if err = errors.Join(append(errs, err)...); err != nil {
		return location{}, err
	}
	return at, nil
}

// checkCA returns the fault of --redis-ca.
func (f *sharedFlags) checkCA() error {
	options, err := redisstore.ParseURL(f.redis)
	switch {
	case err != nil || f.redisCA == "": // the flag --redis refuses a URL with a fault
		return nil
	case options.TLSConfig == nil:
		return errors.New("--redis-ca is for a rediss:// URL")
	}
	if _, err = redisstore.TLSConfig(f.redisCA); err != nil {
		return fmt.Errorf("--redis: %w", err)
	}
	return nil
}

// sharedOnly are flags of crawl that need --redis.
var sharedOnly = []string{"redis-wait", "max-queued", "worker", "partitions"}

// checkNeeds returns an error for each given flag that needs another flag, if that other
// flag is not given.
func (p *plan) checkNeeds() (errs []error) {
	p.layers.flags.VisitAll(func(f *pflag.Flag) {
		if _, given := p.layers.from[f.Name]; !given || f.Value.String() == "false" {
			return
		}
		switch {
		case p.redis == "" && slices.Contains(sharedOnly, f.Name):
			errs = append(errs, fmt.Errorf("%s is for a crawl in Redis: add --redis and --name", p.layers.where(f.Name)))
		case p.admin == "" && f.Name == "pprof":
			errs = append(errs, errors.New("--pprof is given without --admin: add --admin PORT, where the profiles are served"))
		case p.admin == "" && f.Name == "admin-host":
			errs = append(errs, errors.New("--admin-host is given without --admin: add --admin ADDR:PORT, or leave it out"))
		case p.events.to == "" && strings.HasPrefix(f.Name, p.events.prefix):
			errs = append(errs, fmt.Errorf("%s is given without --events URL", p.layers.where(f.Name)))
		}
	})
	return errs
}
