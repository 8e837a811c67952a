package servers

import (
	"bytes"
	"cmp"
	"context"
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
	// TLS makes the TCP port use TLS (see RedisServer.CACert). The socket does not use
	// TLS. A cluster has no TLS.
	TLS bool
	// Config are further directives of redis.conf, which override those of this package.
	// Some directives, such as "user", can occur several times. If a value has several
	// lines, each line becomes a directive.
	Config map[string]string
	// Dir is the folder of the data. Close does not remove it. Empty means a temporary
	// folder, which Close removes.
	Dir string
}

// RedisServer is a running redis-server. Its methods are safe for concurrent
// use.
type RedisServer struct {
	process
	opt   RedisOptions
	data  string        // folder of its data
	admin *redis.Client // nil before the first start
}

// adminUser is the Redis user of this package, in addition to the users in the options.
// It has all rights and no password, because only this machine can reach the server.
const adminUser = "servers"

// Redis starts a Redis server that is closed at the end of the test. If redis-server is
// not installed, the test is skipped. If CRAWLER_TEST_SERVERS is "require", it fails
// instead.
func Redis(t TB, opt RedisOptions) *RedisServer {
	t.Helper()
	return started(t, &RedisServer{opt: opt})
}

// StartRedis starts a Redis server and returns when it answers. ctx bounds the start.
// The caller must call Close. The error wraps ErrMissing if the program is not
// installed.
func StartRedis(ctx context.Context, opt RedisOptions) (*RedisServer, error) {
	return begun(ctx, &RedisServer{opt: opt})
}

func (r *RedisServer) begin(ctx context.Context) error {
	path, err := program("redis-server")
	if err != nil {
		return err
	}
	// The path of a socket must be shorter than 108 bytes. The folder of a test has a
	// longer path, because it contains the test's name.
	if r.run, err = os.MkdirTemp("", "redis-"); err != nil {
		return err
	}
	config := r.file("redis.conf")
	r.command = func() *exec.Cmd { return exec.Command(path, config) }
	r.ready, r.stop = r.ping, syscall.SIGTERM
	r.admin = redis.NewClient(&redis.Options{
		Network: "unix", Addr: r.Socket(), Username: adminUser, Password: "none",
		MaxRetries: -1, ReadTimeout: 10 * time.Second, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	if r.data, err = filepath.Abs(cmp.Or(r.opt.Dir, r.file("data"))); err != nil {
		return err
	}
	if err := os.MkdirAll(r.data, 0o700); err != nil {
		return err
	}
	if r.opt.TLS {
		if err := r.certify(); err != nil {
			return err
		}
	}
	return r.launch(ctx, func() error { return os.WriteFile(config, r.config(), 0o600) })
}

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
		directive("tls-cert-file", r.file(certFile))
		directive("tls-key-file", r.file(keyFile))
		directive("tls-ca-cert-file", r.file(certFile))
		directive("tls-auth-clients", "no")
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
	err := r.process.Close()
	if r.admin == nil {
		return err
	}
	if closed := r.admin.Close(); !errors.Is(closed, redis.ErrClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

// Client returns a client that uses the socket. It has all rights, whatever users the
// options have. It never retries a command by itself. The server's Close closes it.
func (r *RedisServer) Client() *redis.Client { return r.admin }

// Socket returns the path of the server's unix socket.
func (r *RedisServer) Socket() string { return r.file("socket") }

// URL returns the URL of the TCP port. It contains the password, if Config has
// "requirepass".
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

// CACert returns the path of the server's certificate, in PEM, which clients must trust. It
// is empty without TLS.
func (r *RedisServer) CACert() string {
	if !r.opt.TLS {
		return ""
	}
	return r.file(certFile)
}

// CPU returns the processor time of the server's process since its start, including all
// threads, but not child processes.
func (r *RedisServer) CPU() (time.Duration, error) {
	var total time.Duration
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := r.number("cpu", name)
		if err != nil {
			return 0, err
		}
		total += time.Duration(seconds * float64(time.Second))
	}
	return total, nil
}

// UsedMemory returns the number of bytes that the server has allocated (used_memory).
func (r *RedisServer) UsedMemory() (int64, error) {
	used, err := r.number("memory", "used_memory")
	return int64(used), err
}

// number returns one numeric field of a section of the server's INFO.
func (r *RedisServer) number(section, field string) (float64, error) {
	value, err := r.Info(section, field)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w", field, r.Addr(), err)
	}
	return n, nil
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
