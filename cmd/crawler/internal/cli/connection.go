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
// contain: variables of the environment, and the secrets of URLs.
func (f *sharedFlags) connectionNotes() (notes []string) {
	var environ []string
	for _, name := range connectionFlags {
		if f.from[name] == envName(name) {
			environ = append(environ, envName(name))
		}
	}
	for _, url := range [][2]string{{"redis", f.redis}, {"postgres", f.postgres}} {
		source := f.from[url[0]]
		if _, secret := withoutSecret(url[0], url[1]); secret && (source == "" || source == fromFlag) {
			notes = append(notes, secretNote(url[0]))
		}
	}
	if f.postgres != "" && f.postgresPassword == "" {
		for _, name := range []string{"PGUSER", "PGPASSWORD"} {
			if os.Getenv(name) != "" {
				environ = append(environ, name)
			}
		}
	}
	if len(environ) > 0 {
		slices.Sort(environ)
		notes = append(notes, "it also needs, from the environment: "+strings.Join(environ, ", "))
	}
	return notes
}
