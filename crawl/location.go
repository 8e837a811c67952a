package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9/logging"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/address"
	"github.com/bloomfrontier/crawler/internal/name"
)

// ErrNoCrawl reports a location without a crawl.
var ErrNoCrawl = engine.ErrNoCrawl

// WorkerError reports that Location.Dir is the directory of a worker of a crawl in
// Redis, and that this worker is not running.
type WorkerError struct{ Dir, Crawl string }

// Error implements error.
func (e *WorkerError) Error() string {
	return fmt.Sprintf("%s is the directory of a worker of %s, a crawl in Redis, and the worker is not running", e.Dir, e.Crawl)
}

type (
	// LocationError reports a Location that is incomplete, or that contradicts the
	// crawl.
	LocationError = engine.LocationError
	// LostError reports a crawl that is in Postgres but not in its Redis. Rebuild
	// restores it.
	LostError = engine.LostError
)

// String names the crawl without secrets: its directory, or "NAME on REDIS".
func (l Location) String() string {
	if l.Redis == nil {
		return l.Dir
	}
	return l.Redis.Name + " on " + l.Redis.Where()
}

// Where returns the server's URL without secrets.
func (r *Redis) Where() string {
	shown, _ := address.Shown(r.URL)
	return shown
}

// Stored returns the settings that were fixed when the crawl was created. The keys
// are the names of the command's flags. Stored returns nil if there is no crawl.
func Stored(ctx context.Context, l Location) (map[string]string, error) {
	place, err := l.place()
	if err != nil {
		return nil, err
	}
	stored, err := place.Stored(ctx)
	if err != nil || stored == nil {
		return nil, err
	}
	return stored.Settings, nil
}

// place returns where the frontier is stored: a directory, or a Redis.
func (l Location) place() (engine.Place, error) {
	db, err := l.Postgres.database()
	if err != nil {
		return nil, err
	}
	if l.Redis == nil {
		if l.Dir == "" {
			return nil, errors.New("crawl: Dir is empty, want a directory, or Redis")
		}
		return engine.Directory{Path: l.Dir, DB: db}, nil
	}
	return l.server(db)
}

// server returns the Redis of the crawl. The argument db is its Postgres, or nil.
func (l Location) server(db *engine.Database) (*engine.Server, error) {
	if !name.OfCrawl(l.Redis.Name) {
		return nil, fmt.Errorf("crawl: Redis.Name is %q, want %s", l.Redis.Name, name.Form)
	}
	logging.Disable() // go-redis also returns the errors that it prints
	options, err := redisstore.Options(l.Redis.URL, l.Redis.Password, l.Redis.CAFile)
	if err != nil {
		return nil, fmt.Errorf("crawl: Redis.URL: %w", err)
	}
	return &engine.Server{Redis: options, Where: l.Redis.Where(), Name: l.Redis.Name, Dir: l.Dir, DB: db}, nil
}

// wantPostgres describes a valid Postgres.URL.
const wantPostgres = "want postgres://[USER:PASSWORD@]HOST[:PORT]/DATABASE"

// database returns the database that p names, or nil if p is nil.
func (p *Postgres) database() (*engine.Database, error) {
	if p == nil {
		return nil, nil
	}
	target, err := url.Parse(p.URL)
	switch {
	case err != nil || target.Scheme != "postgres" && target.Scheme != "postgresql":
		return nil, errors.New(wantPostgres)
	case target.User == nil && target.Host != "" && strings.Contains(p.URL, "@"):
		// In postgres://user:12/x@host/db, url.Parse takes the user for the host, and the
		// beginning of the password, 12, for the port. Messages would show both.
		return nil, errors.New(wantPostgres + ": it has an @ behind a / ? or #; " +
			"write such a character of a user or password as %2F, %3F or %23, and an @ that is not before the host as %40")
	}
	if p.Password != "" {
		target.User = url.UserPassword(target.User.Username(), p.Password)
	}
	d := &engine.Database{DSN: p.URL, Where: p.where(), NoMigrate: p.NoMigrate}
	if target.User != nil {
		d.DSN = target.String() // escaped, because the driver takes the text after the first @ for a host
	}
	return d, nil
}

// Validate returns an error if the URL is not valid.
func (p *Postgres) Validate() error {
	_, err := p.database()
	return err
}

// Where returns the database's URL without secrets. If the URL is not valid, Where returns
// "postgres", because it is not known where the secrets are in it.
func (p *Postgres) Where() string {
	if p.Validate() != nil {
		return "postgres"
	}
	return p.where()
}

// DSN returns the URL with the password. If the URL is not valid, the error does not show it.
func (p *Postgres) DSN() (string, error) {
	db, err := p.database()
	if err != nil {
		return "", err
	}
	return db.DSN, nil
}

func (p *Postgres) where() string {
	shown, _ := address.Shown(p.URL)
	return shown
}
