package servers

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// RedisOptions is the configuration of a Redis server. With the zero value, the
// server keeps everything in memory, and clients need no password.
type RedisOptions struct {
	// AppendOnly makes the server write its append-only file, synced every second.
	AppendOnly bool
	// TLS makes the TCP port use TLS, with a certificate of the server's own authority
	// (see RedisServer.CACert). The socket does not use TLS.
	TLS bool
	// Config are further directives of redis.conf, which override those of this
	// package. A value of several lines repeats the directive ("user").
	Config map[string]string
	// Dir is the folder of the data, which Close does not remove. Empty means a
	// temporary folder, which Close removes.
	Dir string
	// Program is the name or path of redis-server or a compatible server; empty
	// means "redis-server".
	Program string
}

// RedisServer is a running redis-server. Its methods are safe for concurrent
// use.
type RedisServer struct {
	process
	opt    RedisOptions
	port   int
	run    string // socket, configuration, log
	data   string
	caCert string // path; empty without TLS
	admin  *redis.Client
}

// adminUser is the user of this package, in addition to those of the options. It has all
// rights and no password, because only this machine can reach the server.
const adminUser = "servers"

// Redis starts a Redis server that is closed at the end of the test. If
// redis-server is not installed, the test is skipped, or fails if
// CRAWLER_TEST_SERVERS is "require".
func Redis(t TB, opt RedisOptions) *RedisServer {
	t.Helper()
	server, err := StartRedis(t.Context(), opt)
	return started(t, server, err)
}

// StartRedis starts a Redis server and returns when it answers; ctx bounds the
// start. The caller must call Close. The error is ErrMissing if the program is not
// installed.
func StartRedis(ctx context.Context, opt RedisOptions) (*RedisServer, error) {
	if opt.Program == "" {
		opt.Program = "redis-server"
	}
	path, err := program(opt.Program)
	if err != nil {
		return nil, err
	}
	// The path of a socket must be short (108 bytes), so it cannot be below the
	// folder of a test, whose path contains the test's name.
	run, err := os.MkdirTemp("", "redis-")
	if err != nil {
		return nil, err
	}
	r := &RedisServer{opt: opt, run: run, data: opt.Dir}
	r.process = process{
		command: func() *exec.Cmd { return exec.Command(path, r.configPath()) },
		ready:   r.ping,
		stop:    syscall.SIGTERM,
		log:     filepath.Join(run, "log"),
	}
	r.admin = redis.NewClient(&redis.Options{
		Network: "unix", Addr: r.Socket(), Username: adminUser, Password: "none",
		MaxRetries: -1, ReadTimeout: 10 * time.Second, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	if err := r.prepare(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	err = startOnFreePort(func(port int) error {
		r.port = port
		if err := os.WriteFile(r.configPath(), r.config(), 0o600); err != nil {
			return err
		}
		return r.start(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// prepare makes the data folder and the certificates that the configuration names.
func (r *RedisServer) prepare() (err error) {
	if r.data == "" {
		r.data = filepath.Join(r.run, "data")
		if err := os.Mkdir(r.data, 0o700); err != nil {
			return err
		}
	}
	if r.data, err = filepath.Abs(r.data); err != nil {
		return err
	}
	if r.opt.TLS {
		r.caCert = filepath.Join(r.run, "ca.pem")
		return writeCertificates(r.caCert, r.certPath(), r.keyPath())
	}
	return nil
}

func (r *RedisServer) configPath() string { return filepath.Join(r.run, "redis.conf") }
func (r *RedisServer) certPath() string   { return filepath.Join(r.run, "cert.pem") }
func (r *RedisServer) keyPath() string    { return filepath.Join(r.run, "key.pem") }

// config returns the text of redis.conf.
func (r *RedisServer) config() []byte {
	var text bytes.Buffer
	directive := func(name, value string) { fmt.Fprintf(&text, "%s %s\n", name, value) }
	directive("bind", "127.0.0.1")
	directive("unixsocket", r.Socket())
	directive("dir", strconv.Quote(r.data))
	directive("save", `""`)
	directive("enable-debug-command", "local")
	directive("user", adminUser+" on nopass ~* &* +@all")
	directive("masteruser", adminUser)
	directive("masterauth", "none")
	if r.opt.AppendOnly {
		directive("appendonly", "yes")
		directive("appendfsync", "everysec")
	}
	if r.opt.TLS {
		directive("port", "0")
		directive("tls-port", strconv.Itoa(r.port))
		directive("tls-cert-file", r.certPath())
		directive("tls-key-file", r.keyPath())
		directive("tls-ca-cert-file", r.caCert)
		directive("tls-auth-clients", "no")
		directive("tls-replication", "yes")
		directive("tls-cluster", "yes")
	} else {
		directive("port", strconv.Itoa(r.port))
	}
	for _, name := range slices.Sorted(maps.Keys(r.opt.Config)) {
		for line := range strings.Lines(r.opt.Config[name]) {
			directive(name, strings.TrimSuffix(line, "\n"))
		}
	}
	return text.Bytes()
}

// ping returns nil if the server answers commands. It checks first that the socket exists,
// because the client logs each dial that fails.
func (r *RedisServer) ping(ctx context.Context) error {
	if _, err := os.Stat(r.Socket()); err != nil {
		return err
	}
	return r.admin.Ping(ctx).Err()
}

// Close kills the server and removes its files, except those in RedisOptions.Dir. A second
// Close does nothing.
func (r *RedisServer) Close() error {
	err := r.Kill()
	if closed := r.admin.Close(); !errors.Is(closed, redis.ErrClosed) {
		err = errors.Join(err, closed)
	}
	return errors.Join(err, os.RemoveAll(r.run))
}

// Client returns a client over the socket with all rights, independently of the
// users in the options. It never repeats a command by itself. The server's Close
// closes it.
func (r *RedisServer) Client() *redis.Client { return r.admin }

// Addr returns the TCP address, "127.0.0.1:port".
func (r *RedisServer) Addr() string { return loopback(r.port) }

// Socket returns the path of the server's unix socket.
func (r *RedisServer) Socket() string { return filepath.Join(r.run, "socket") }

// URL returns the URL of the TCP port. It contains the password if the options
// have a "requirepass".
func (r *RedisServer) URL() string {
	u := url.URL{Scheme: "redis", Host: r.Addr()}
	if r.opt.TLS {
		u.Scheme = "rediss"
	}
	if password := r.opt.Config["requirepass"]; password != "" {
		u.User = url.UserPassword("", password)
	}
	return u.String()
}

// CACert returns the path of the authority's certificate (PEM); it is empty
// without TLS.
func (r *RedisServer) CACert() string { return r.caCert }

// TLSConfig returns the TLS configuration of a client of the TCP port; nil without
// TLS.
func (r *RedisServer) TLSConfig() (*tls.Config, error) {
	if r.caCert == "" {
		return nil, nil
	}
	return trust(r.caCert)
}

// CPU returns the processor time of the server's process since its start, of all
// its threads and without its children.
func (r *RedisServer) CPU() (time.Duration, error) {
	var total time.Duration
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		value, err := r.Info("cpu", name)
		if err != nil {
			return 0, err
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s of %s: %w", name, r.Addr(), err)
		}
		total += time.Duration(seconds * float64(time.Second))
	}
	return total, nil
}

// UsedMemory returns the bytes that the server allocated (used_memory).
func (r *RedisServer) UsedMemory() (int64, error) {
	value, err := r.Info("memory", "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(value, 10, 64)
}

// Info returns one field of a section of the server's INFO.
func (r *RedisServer) Info(section, field string) (string, error) {
	answer, err := r.admin.Info(context.Background(), section).Result()
	if err != nil {
		return "", fmt.Errorf("INFO %s of %s: %w", section, r.Addr(), err)
	}
	for line := range strings.Lines(answer) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("INFO %s of %s has no %s", section, r.Addr(), field)
}
