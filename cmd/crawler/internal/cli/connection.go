package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl"
)

// postgresFlags are the flags of the connection to Postgres.
type postgresFlags struct {
	postgres         string // may contain a secret: see shownPostgres
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
	if f.from == nil {
		f.from = make(map[string]string)
	}
	for _, name := range names {
		if f.from[name] != "" { // set by an earlier call, which also marked the flag as changed
			continue
		}
		if flags.Changed(name) {
			f.from[name] = fromFlag
			continue
		}
		if text := os.Getenv(envName(name)); text != "" {
			if err := flags.Set(name, text); err != nil {
				return badValue(envName(name), flags.Lookup(name), text, errors.Unwrap(err))
			}
			f.from[name] = envName(name)
		}
	}
	return nil
}

// repeated reports whether a command line that is printed for the user must contain a
// connection flag. The line needs no flag for a value from the environment, which every
// command reads. If readsConfig is true, it also needs no flag for a value from the config
// file.
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
	if _, secret := shownRedis(f.redis); secret && f.passwordFile == "" {
		missing("Redis", "redis", "write it to a file and add --redis-password-file FILE")
	}
	if f.postgres != "" && f.postgresPassword == "" {
		if _, secret := shownPostgres(f.postgres); secret {
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

// shownRedis returns a Redis URL with its user and without its password. hasSecret reports
// whether the URL has a password. A single word before the @ is a password.
func shownRedis(raw string) (shown string, hasSecret bool) {
	scheme, rest, _ := strings.Cut(raw, "://")
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return raw, false
	}
	user, password, named := strings.Cut(rest[:at], ":")
	if !named {
		user, password = "", user
	}
	if user != "" {
		user += ":@" // without the colon, the user would be taken for a password
	}
	return scheme + "://" + user + rest[at+1:], password != ""
}

// shownPostgres returns dsn with the user and without passwords. The DSN is a Postgres
// URL, or keywords with values. hasSecret reports whether it has a password.
func shownPostgres(dsn string) (shown string, hasSecret bool) {
	if !strings.Contains(dsn, "://") {
		return shownKeywords(dsn)
	}
	target, err := url.Parse(dsn)
	if err != nil {
		return "", true // another check refuses this URL
	}
	if user := target.User; user != nil {
		_, hasSecret = user.Password()
		target.User = nil
		if name := user.Username(); name != "" {
			target.User = url.User(name)
		}
	}
	query := target.Query()
	for _, name := range postgresSecrets {
		if query.Has(name) {
			hasSecret = true
			query.Del(name)
			target.RawQuery = query.Encode()
		}
	}
	return target.String(), hasSecret
}

// postgresSecrets are the connection parameters of Postgres that are secret.
var postgresSecrets = []string{"password", "sslpassword"}

// shownKeywords is like shownPostgres, for keywords and values: host=h password='p w'.
func shownKeywords(dsn string) (shown string, hasSecret bool) {
	const space = " \t\n\r\v\f"
	var kept []string
	for rest := strings.TrimLeft(dsn, space); rest != ""; rest = strings.TrimLeft(rest, space) {
		name, after, found := strings.Cut(rest, "=")
		if !found { // not a keyword with a value, so the driver refuses it
			return strings.Join(kept, " "), true
		}
		name, after = strings.Trim(name, space), strings.TrimLeft(after, space)
		quoted := strings.HasPrefix(after, "'")
		end := 0
		if quoted {
			end = 1
		}
		for end < len(after) && (quoted && after[end] != '\'' || !quoted && !strings.ContainsRune(space, rune(after[end]))) {
			if after[end] == '\\' {
				end++
			}
			end++
		}
		if quoted {
			end++
		}
		end = min(end, len(after))
		if slices.Contains(postgresSecrets, strings.ToLower(name)) {
			hasSecret = true
		} else {
			kept = append(kept, name+"="+after[:end])
		}
		rest = after[end:]
	}
	return strings.Join(kept, " "), hasSecret
}
