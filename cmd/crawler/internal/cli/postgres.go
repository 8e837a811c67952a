package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl"
)

// postgresFlags are the flags of the connection to Postgres.
type postgresFlags struct {
	postgres         string // may contain a secret: see shownPostgres
	postgresPassword string // name of the file with the password
	// from is the source of each connection flag's value, by name.
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

// database returns the Postgres that the flags name, or nil.
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

// readPassword reads the file that a flag names. A line feed at its end is removed.
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
