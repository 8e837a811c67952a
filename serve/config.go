package serve

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/internal/name"
)

// Config configures a Server. Root is required.
type Config struct {
	// Root is the directory below which everything is stored. It is created if there is none. One Server at a time can
	// use it. With Redis it has only the identity of the Server and temporary files.
	Root string
	// Redis has the crawls, whose workers run elsewhere, and what the Server stores about them. Its Name must be empty. One Server
	// at a time uses a Redis. If another one does, New waits for up to 20 s and returns ErrLeaseHeld. nil means that the
	// Server runs crawls in directories below Root.
	Redis *crawl.Redis
	// Postgres has the exact URLs of the crawls in Redis, their records if Settings.Sink says so, and the answers of keys. nil means
	// none.
	Postgres *crawl.Postgres
	// Settings are the defaults of new crawls. Those that concern this machine or lift a guard, such as AllowPrivate, Proxy
	// and ConnectTo, hold for all crawls, and no caller can set them. The zero Settings are crawl.DefaultSettings. Headers
	// must be empty, because their secrets are not stored.
	Settings crawl.Settings
	// Tokens are those of the callers. Without tokens the Server listens on loopback only, and each caller may do everything
	// under the name "local".
	Tokens []Token
	// TLS makes Run serve HTTPS. BehindProxy says that a proxy in front of the Server does this. An address that is not
	// loopback needs Tokens and one of these.
	TLS         *tls.Config
	BehindProxy bool
	// Hosts are further names by which callers reach the Server, in their Host header. It is always known as localhost and
	// as its IP addresses.
	Hosts []string
	// Memory is how many bytes the running crawls may use for what they make of answers; 0 means 256 MiB. Each gets an
	// equal part. MaxRunning is how many crawls run at once; 0 means 4. The others wait.
	Memory     int64
	MaxRunning int
	// Scarce is that of crawl.Config, for each crawl. Several goroutines call it. It is optional.
	Scarce func() fetcher.Resource
	// Audit gets a line of JSON for each request that wants to change something. It is optional.
	Audit io.Writer
	// Logger gets the messages of the Server and its crawls. nil discards them.
	Logger *slog.Logger
}

// Scope is what a Token permits.
type Scope string

// Scopes. Each includes those before it.
const (
	Read  Scope = "read"  // look at crawls
	Write Scope = "write" // add seeds, pause, resume and stop crawls, change settings, drop and retry URLs
	Admin Scope = "admin" // create and delete crawls
)

var scopes = []Scope{Read, Write, Admin}

// permits reports whether s includes the scope wanted.
func (s Scope) permits(wanted Scope) bool {
	return slices.Index(scopes, s) >= slices.Index(scopes, wanted)
}

// Token is the secret of a caller.
type Token struct {
	Name  string   // 1 to 64 letters, digits, dots, underscores and dashes
	Scope Scope    //
	Hash  [32]byte // SHA-256 of the secret
}

// leastSecret is the least length of a secret.
const leastSecret = 16

// ParseTokens reads lines "NAME SCOPE SECRET" with a scope of read, write and admin. A secret has at least 16 characters.
// Empty lines, and lines that begin with #, are ignored. The error names each line that is wrong, without its secret.
func ParseTokens(r io.Reader) (tokens []Token, err error) {
	var errs []error
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		parts := strings.Fields(text)
		if len(parts) != 3 || len(parts[2]) < leastSecret {
			errs = append(errs, fmt.Errorf("serve: line %d of the tokens: want NAME SCOPE SECRET, with a secret of %d characters or more", n, leastSecret))
			continue
		}
		tokens = append(tokens, Token{parts[0], Scope(parts[1]), sha256.Sum256([]byte(parts[2]))})
	}
	if errs = append(errs, lines.Err()); errors.Join(errs...) == nil && len(tokens) == 0 {
		errs = append(errs, errors.New("serve: the file of tokens has none"))
	}
	return tokens, errors.Join(append(errs, checkTokens(tokens)...)...)
}

func checkTokens(tokens []Token) (errs []error) {
	for i, t := range tokens {
		if !name.Valid(t.Name) || t.Name == localCaller {
			errs = append(errs, fmt.Errorf("serve: the name of a token is %.80q, want %s, and not %q", t.Name, name.Form, localCaller))
		}
		if !slices.Contains(scopes, t.Scope) {
			errs = append(errs, fmt.Errorf("serve: the scope of token %.80q is %.80q, want read, write or admin", t.Name, t.Scope))
		}
		if slices.ContainsFunc(tokens[:i], func(other Token) bool { return other.Name == t.Name || other.Hash == t.Hash }) {
			errs = append(errs, fmt.Errorf("serve: token %.80q has the name or the secret of another one", t.Name))
		}
	}
	return errs
}

// check returns cfg with its defaults. The error names every fault.
func (cfg Config) check() (Config, error) {
	errs := checkTokens(cfg.Tokens)
	if cfg.Root == "" {
		errs = append(errs, errors.New("serve: Config.Root is empty, want a directory"))
	}
	if cfg.Memory < 0 || cfg.MaxRunning < 0 {
		errs = append(errs, errors.New("serve: Config.Memory or Config.MaxRunning is negative"))
	}
	if cfg.TLS != nil && cfg.BehindProxy {
		errs = append(errs, errors.New("serve: Config has both TLS and BehindProxy, want one"))
	}
	if reflect.ValueOf(cfg.Settings).IsZero() {
		cfg.Settings = crawl.DefaultSettings()
	}
	if len(cfg.Settings.Headers) > 0 {
		errs = append(errs, errors.New("serve: Config.Settings has Headers, whose secrets are not stored"))
	}
	if cfg.Postgres == nil && (cfg.Settings.Sink == "postgres" || cfg.Settings.CDC) {
		errs = append(errs, errors.New("serve: Config.Settings has records in Postgres, but Config.Postgres is nil"))
	}
	if cfg.Redis == nil && cfg.Postgres != nil || cfg.Redis != nil && cfg.Redis.Name != "" {
		errs = append(errs, errors.New("serve: Config.Postgres is without Config.Redis, or Config.Redis has a Name"))
	}
	if first := errors.Join(errs...); first != nil {
		return cfg, first
	}
	cfg.Memory, cfg.MaxRunning = cmp.Or(cfg.Memory, 256<<20), cmp.Or(cfg.MaxRunning, 4)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if err := (crawl.Config{Dir: cfg.Root, Postgres: cfg.Postgres, Settings: cfg.Settings, Memory: cfg.Memory / int64(cfg.MaxRunning)}).Validate(); err != nil {
		return cfg, fmt.Errorf("serve: a crawl with the Settings of Config, and Memory / MaxRunning: %w", err)
	}
	return cfg, nil
}

// hide returns a text for callers, without paths of this machine and addresses of servers.
func (cfg *Config) hide(text string) string {
	hidden := []string{cfg.Root + "/", ""}
	if cfg.Redis != nil {
		hidden = append(hidden, cfg.Redis.Where(), "Redis")
	}
	if cfg.Postgres != nil {
		hidden = append(hidden, cfg.Postgres.Where(), "Postgres")
	}
	return strings.NewReplacer(hidden...).Replace(text)
}
