package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/frontier/pgstore"
)

// postgresFlags say how to reach a Postgres.
type postgresFlags struct {
	postgres         string // may have a secret: see database.where
	postgresPassword string // the file that has it
	// from says where the value of each connection flag came from, by name.
	from map[string]string
}

func (f *postgresFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.postgres, "postgres", "", "`URL` of the Postgres that has the crawl's exact keys or its records: postgres://[USER:PASSWORD@]HOST[:PORT]/DATABASE")
	flags.StringVar(&f.postgresPassword, "postgres-password-file", "", "read its password from `FILE`")
	restrict.Check(flags, "postgres", func(text string) error {
		_, err := (&postgresFlags{postgres: text}).database()
		return err
	})
}

const wantPostgres = "want postgres://[USER:PASSWORD@]HOST[:PORT]/DATABASE"

// fromEnvironment takes what is not on the command line.
func (f *postgresFlags) fromEnvironment(flags *pflag.FlagSet) error {
	return f.adoptEnvironment(flags, "postgres", "postgres-password-file")
}

// beside returns the place of a crawl in a directory with the Postgres that flags
// or environment name.
func (f *postgresFlags) beside(at place, flags *pflag.FlagSet) (place, error) {
	err := f.fromEnvironment(flags)
	if err != nil {
		return at, usage(err)
	}
	db, err := f.database()
	if err != nil {
		return at, usage(err)
	}
	at.home = directory{at.dir, db}
	return at, nil
}

// database is a Postgres beside a crawl.
type database struct {
	dsn   string
	where string        // the same, as messages show it
	flags postgresFlags // that name it
}

// database returns the Postgres that the flags name; nil: they name none.
func (f *postgresFlags) database() (*database, error) {
	if f.postgres == "" {
		if f.postgresPassword != "" {
			return nil, errors.New("--postgres-password-file wants --postgres")
		}
		return nil, nil
	}
	d := &database{dsn: f.postgres, where: "postgres", flags: *f}
	target, err := url.Parse(f.postgres)
	isURL := err == nil && (target.Scheme == "postgres" || target.Scheme == "postgresql")
	switch {
	case isURL && target.User == nil && target.Host != "" && strings.Contains(f.postgres, "@"):
		// A password that begins with digits would be taken for a port, and shown.
		return nil, errors.New(wantPostgres + ": it has an @ behind a / ? or #; " +
			"write such a character of a user or password as %2F, %3F or %23, and an @ that is not before the host as %40")
	case isURL:
		d.where = withoutSecrets(f.postgres)
		if target.User != nil {
			d.dsn = target.String() // the driver takes what is behind the first @ for a host
		}
	case strings.Contains(f.postgres, "://") || !strings.Contains(f.postgres, "="):
		return nil, errors.New(wantPostgres)
	}
	password, err := readPassword("postgres-password-file", f.postgresPassword)
	if err != nil || password == "" {
		return d, err
	}
	if isURL {
		target.User = url.UserPassword(target.User.Username(), password)
		d.dsn = target.String()
	} else {
		d.dsn += " password='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password) + "'"
	}
	return d, nil
}

// arguments name the database on a command line, without secrets and without
// what the command finds in the environment or in the config file.
func (d *database) arguments(readsConfig bool) (line []string) {
	if d == nil {
		return nil
	}
	if d.flags.repeated("postgres", readsConfig) {
		shown, _ := shownPostgres(d.flags.postgres)
		line = append(line, "--postgres", shellQuote(shown))
	}
	if file := d.flags.postgresPassword; file != "" && d.flags.repeated("postgres-password-file", readsConfig) {
		line = append(line, "--postgres-password-file", shellQuote(file))
	}
	return line
}

// open joins the crawl that config names, in the database, or creates it.
func (d *database) open(ctx context.Context, p *plan, config pgstore.Config) (*pgstore.Store, error) {
	config.DSN, config.NoMigrate = d.dsn, p.noMigrate
	set, err := pgstore.Open(ctx, config)
	return set, d.explain(err)
}

// inspect opens a crawl that is there.
func (d *database) inspect(ctx context.Context, name string) (*pgstore.Store, error) {
	set, err := pgstore.Inspect(ctx, pgstore.Config{DSN: d.dsn, Crawl: name})
	return set, d.explain(err)
}

// explain says where an error is from.
func (d *database) explain(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitFailed, fmt.Errorf("%s: %w", d.where, err)}
}

// readPassword reads the file that a flag names; the end of its line is no part
// of the password.
func readPassword(flag, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", fmt.Errorf("--%s: %s is empty", flag, name)
	}
	return password, nil
}
