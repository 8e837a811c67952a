package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl"
)

// postgresFlags are the flags of the connection to Postgres.
type postgresFlags struct {
	postgres         string // may contain a secret: see withoutSecret
	postgresPassword string // name of the file with the password
	// The source of each connection flag's value, by the name of the flag.
	from map[string]string
}

// postgresNames are the names of the flags in postgresFlags.
var postgresNames = []string{"postgres", "postgres-password-file"}

func (f *postgresFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.postgres, "postgres", "", "`URL` of the Postgres that has the crawl's exact keys or its records: postgres://[USER:PASSWORD@]HOST[:PORT]/DATABASE")
	flags.StringVar(&f.postgresPassword, "postgres-password-file", "", "read its password from `FILE`")
	restrict.Check(flags, "postgres", func(text string) error {
		_, err := (&postgresFlags{postgres: text}).database()
		return err
	})
}

// database returns the Postgres that the flags select, or nil.
func (f *postgresFlags) database() (*crawl.Postgres, error) {
	if f.postgres == "" {
		if f.postgresPassword != "" {
			return nil, errors.New("--postgres-password-file needs --postgres")
		}
		return nil, nil
	}
	db := &crawl.Postgres{URL: f.postgres}
	if err := db.Validate(); err != nil {
		return nil, err
	}
	password, err := readPassword("postgres-password-file", f.postgresPassword)
	db.Password = password
	return db, err
}

// readPassword reads the file that a flag names. It removes line ends at the end of the
// file.
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

// adoptEnvironment sets connection flags that the command line does not have. The values
// come from the environment. adoptEnvironment also notes the source of each value.
func (f *postgresFlags) adoptEnvironment(flags *pflag.FlagSet, names []string) error {
	l := newLayers(flags)
	f.from = l.from
	var errs []error
	for _, name := range names {
		errs = append(errs, l.readVariable(name, envName(name), os.Getenv(envName(name))))
	}
	return errors.Join(errs...)
}

// repeated reports whether a command line that is printed for the user must contain a
// connection flag. The line needs no flag for a value from the environment, which every
// command reads. If readsConfig is true, the line also needs no flag for a value from the
// config file.
func (f *postgresFlags) repeated(name string, readsConfig bool) bool {
	switch f.from[name] {
	case "", fromFlag:
		return true
	case envName(name):
		return false
	}
	return !readsConfig
}

// connectionNotes returns notes about values that the resume command needs but does not
// contain: variables of the environment, and passwords.
func (f *sharedFlags) connectionNotes() (notes []string) {
	var environ []string
	for _, name := range connectionFlags {
		if f.from[name] == envName(name) {
			environ = append(environ, envName(name))
		}
	}
	missing := func(what, flag, remedy string) {
		if source := f.from[flag]; source == "" || source == fromFlag {
			notes = append(notes, fmt.Sprintf("the password of %s was in --%s and is not shown: %s", what, flag, remedy))
		}
	}
	if _, secret := withoutSecret("redis", f.redis); secret && f.passwordFile == "" {
		missing("Redis", "redis", "write it to a file and add --redis-password-file FILE")
	}
	if f.postgres != "" && f.postgresPassword == "" {
		if _, secret := withoutSecret("postgres", f.postgres); secret {
			missing("Postgres", "postgres", "put it into PGPASSWORD or ~/.pgpass, or add --postgres-password-file FILE")
		} else if os.Getenv("PGPASSWORD") != "" {
			environ = append(environ, "PGPASSWORD")
		}
	}
	if len(environ) > 0 {
		slices.Sort(environ)
		notes = append(notes, "it also needs, from the environment: "+strings.Join(environ, ", "))
	}
	return notes
}
