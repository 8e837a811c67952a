package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/memlimit"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/serve"
)

// serving are the flags of crawler serve.
type serving struct {
	root, listen, tokens, cert, key, audit, logFormat string
	hosts, settings                                   []string
	proxied                                           bool
	memory                                            human.Bytes
	running                                           int
	shared                                            sharedFlags
}

// newServe returns the command that runs crawls behind an HTTP API.
func newServe(s streams) *cobra.Command {
	f := serving{memory: human.Bytes(memlimit.Default())}
	var crash string
	cmd := &cobra.Command{
		Use:   "serve [--root DIR] [--redis URL] [--listen ADDR:PORT] [--tokens FILE] [flags]",
		Short: "Run crawls for other programs, over HTTP",
		Long: `Run crawls for other programs, over HTTP: they create crawls, add seeds, read
records and events, and change what a crawl does. Each request that changes
something has an Idempotency-Key, and a repeat of it has the same effect and the
same answer. All crawls are stored below one directory, and go on when the command
is started again. No host is requested more often because several crawls need it.
With --redis, the crawls are in this Redis. The command does not run them: workers
elsewhere do, each a crawler crawl --redis URL --name NAME.

Without --tokens only this machine can connect, and each of its users may do
everything. A file of tokens has lines NAME SCOPE SECRET, with a scope of read,
write and admin. Another address than a loopback one needs --tokens, and
--tls-cert or --behind-proxy.`,
		Example: `  crawler serve
  crawler serve --root /var/lib/crawls --tokens tokens.txt --set contact=https://example.org/bot
  crawler serve --redis redis://10.0.0.5 --postgres postgres://10.0.0.6/crawls --set sink=postgres
  crawler serve --listen :8443 --tokens tokens.txt --tls-cert cert.pem --tls-key key.pem --host crawls.example.org`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.root, "root", "crawls", "`DIR` of all crawls, or with --redis of temporary files; it is created if there is none")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`ADDR:PORT` to listen on; :PORT means all addresses of this machine")
	flags.StringVar(&f.tokens, "tokens", "", "`FILE` of the tokens of callers, which only its owner can read")
	flags.StringVar(&f.cert, "tls-cert", "", "PEM `FILE` of the server's certificate and those above it")
	flags.StringVar(&f.key, "tls-key", "", "PEM `FILE` of the key of --tls-cert")
	flags.BoolVar(&f.proxied, "behind-proxy", false, "a proxy in front of this server does TLS")
	flags.StringArrayVar(&f.hosts, "host", nil, "another `NAME` by which callers reach the server; can be repeated")
	flags.Var(&f.memory, "memory", "`SIZE` for all crawls together, without their filters; with units such as 512MiB")
	flags.IntVar(&f.running, "max-running", 4, "`N` crawls run at once, the others wait")
	flags.StringVar(&f.audit, "audit", "", "append a line of JSON about each change to `FILE`; - is stdout")
	flags.StringArrayVar(&f.settings, "set", nil, "setting `NAME=VALUE` of all new crawls, with the names of the flags of crawler crawl; can be repeated")
	choice(flags, &f.logFormat, "log-format", "`FORMAT`: text or json", "text", "json")
	f.shared.addServerTo(flags)
	f.shared.postgresFlags.addTo(flags)
	addCrash(flags, &crash)
	checkText(flags, "listen", "ADDR:PORT", func(text string) error {
		host, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err == nil && host != "" && host != "localhost" {
			_, err = netip.ParseAddr(host)
		}
		return err
	})
	for _, name := range []string{"tokens", "tls-cert", "tls-key", "audit"} {
		_ = cmd.MarkFlagFilename(name) // an error means that there is no such flag
	}
	_ = cmd.MarkFlagDirname("root")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		crashAt(crash)
		if flags.Changed("redis") || !flags.Changed("root") { // a directory on the command line wins over a Redis in the environment
			if err := f.shared.adoptEnvironment(flags, slices.Concat(serverFlags, postgresNames)); err != nil {
				return usage(err)
			}
		}
		return f.run(cmd.Context(), s)
	}
	return cmd
}

// run serves until ctx ends.
func (f *serving) run(ctx context.Context, s streams) (err error) {
	cfg, closeAudit, err := f.config(s)
	if err != nil {
		return usage(err)
	}
	defer func() { err = errors.Join(err, closeAudit()) }()
	var mu sync.Mutex // guards keeper
	var keeper *memlimit.Keeper
	cfg.Scarce = func() fetcher.Resource {
		mu.Lock()
		defer mu.Unlock()
		return keeper.Scarce()
	}
	limit := uint64(f.memory)
	if os.Getenv("GOMEMLIMIT") != "" {
		limit = 0
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server, err := serve.New(ctx, cfg)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	keeper = memlimit.New(limit, server.FilterBytes)
	scheme := "http"
	if cfg.TLS != nil {
		scheme = "https"
	}
	where := f.root
	if cfg.Redis != nil {
		where = "crawls in " + cfg.Redis.Where()
	}
	fmt.Fprintf(s.err, "serving %s on %s://%s/v1/crawls; Ctrl-C stops, the same command goes on\n", where, scheme, listener.Addr())
	if err := errors.Join(server.Run(ctx, listener), server.Close()); err != nil {
		return err
	}
	return &exitError{signalCode(ctx), nil}
}

// config returns the configuration of the server. The error names every fault.
func (f *serving) config(s streams) (cfg serve.Config, closeAudit func() error, err error) {
	var errs []error
	settings := crawl.DefaultSettings()
	for _, err := range settings.AssignNew(f.settings) {
		errs = append(errs, fmt.Errorf("--set: %w", err))
	}
	if f.running < 1 || f.running > 1000 {
		errs = append(errs, fmt.Errorf("--max-running is %d, want 1 to 1000", f.running))
	}
	cfg = serve.Config{
		Root: f.root, Settings: settings, BehindProxy: f.proxied, Hosts: f.hosts, Memory: int64(f.memory) / 2, MaxRunning: f.running,
		Logger: newLogger(s.err, "info", f.logFormat),
	}
	if f.shared.redis != "" {
		f.shared.name = "serve" // any name
		at, err := f.shared.location("")
		if errs = append(errs, err); err == nil {
			cfg.Redis, cfg.Postgres = at.Redis, at.Postgres
			cfg.Redis.Name = ""
		}
	} else if f.shared.postgres != "" {
		errs = append(errs, errors.New("--postgres is for crawls in Redis: add --redis"))
	}
	if f.tokens != "" {
		if cfg.Tokens, err = readTokens(f.tokens); err != nil {
			errs = append(errs, fmt.Errorf("--tokens: %w", err))
		}
	}
	switch {
	case (f.cert == "") != (f.key == ""):
		errs = append(errs, errors.New("--tls-cert and --tls-key belong together"))
	case f.cert != "" && f.proxied:
		errs = append(errs, errors.New("--tls-cert and --behind-proxy: want one of them"))
	case f.cert != "":
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			errs = append(errs, fmt.Errorf("--tls-cert: %w", err))
		}
		cfg.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	if err := errors.Join(errs...); err != nil {
		return cfg, nil, err
	}
	switch f.audit {
	case "":
	case "-":
		cfg.Audit = s.out
	default:
		file, err := os.OpenFile(f.audit, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return cfg, nil, fmt.Errorf("--audit: %w", err)
		}
		cfg.Audit = file
		return cfg, file.Close, nil
	}
	return cfg, func() error { return nil }, nil
}

// readTokens reads a file of tokens, which other users must not be able to read.
func readTokens(name string) (tokens []serve.Token, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("other users can read %s: chmod 600 %s", name, shellQuote(name))
	}
	text, err := io.ReadAll(io.LimitReader(file, 1<<20))
	if err != nil {
		return nil, err
	}
	return serve.ParseTokens(strings.NewReader(string(text)))
}
