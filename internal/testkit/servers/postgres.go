package servers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// PostgresOptions is the configuration of a Postgres server. With the zero value,
// clients need no password, and the server does not sync its files.
type PostgresOptions struct {
	// FSync makes the server sync its files, as in production, so that commits survive
	// a power failure. Commits survive Kill even without FSync.
	FSync bool
	// Password is the password of the user postgres; empty means that clients need
	// none.
	Password string
	// WAL is an empty folder for the write-ahead log. The user that the server runs as
	// becomes the owner of this folder. For example, a test can choose a folder on a disk
	// that it fills. Empty means a folder inside the data folder.
	WAL string
	// Config are further settings of postgresql.conf, which override those of this
	// package.
	Config map[string]string
}

// PostgresServer is a running Postgres server. Its methods are safe for
// concurrent use.
type PostgresServer struct {
	process
	opt       PostgresOptions
	bin       string              // folder of the programs
	owner     *syscall.Credential // the user that the server runs as; nil means the user that runs this process
	databases atomic.Int32        // number of databases that NewDatabase made
}

// Postgres starts a Postgres server that is closed at the end of the test. If Postgres
// is not installed, the test is skipped. If CRAWLER_TEST_SERVERS is "require", it fails
// instead.
func Postgres(t TB, opt PostgresOptions) *PostgresServer {
	t.Helper()
	return started(t, &PostgresServer{opt: opt})
}

// StartPostgres starts a Postgres server and returns when it answers. ctx bounds the
// start. The caller must call Close. The error wraps ErrMissing if the programs are
// neither in PATH nor where Debian installs them.
//
// Postgres refuses to run as root. If this process runs as root, the server runs as the
// user postgres or, if that does not exist, as the least privileged user of the system.
func StartPostgres(ctx context.Context, opt PostgresOptions) (*PostgresServer, error) {
	return begun(ctx, &PostgresServer{opt: opt})
}

func (p *PostgresServer) begin(ctx context.Context) (err error) {
	if p.bin, err = postgresPrograms(); err != nil {
		return err
	}
	if p.owner, err = unprivileged(); err != nil {
		return err
	}
	// The folder is not below a test's folder. Other users cannot enter a test's folder,
	// and its path is too long for a socket.
	if p.run, err = os.MkdirTemp("", "postgres-"); err != nil {
		return err
	}
	p.command = func() *exec.Cmd { return p.asOwner(exec.Command(filepath.Join(p.bin, "postgres"), "-D", p.data())) }
	p.ready, p.stop = p.ping, syscall.SIGINT // a fast shutdown, which disconnects the clients
	if err := p.initialise(ctx); err != nil {
		return err
	}
	config := filepath.Join(p.data(), "postgresql.conf")
	base, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	return p.launch(ctx, func() error { return os.WriteFile(config, slices.Concat(base, p.config()), 0o600) })
}

// FindPostgres returns nil if StartPostgres can find the programs, and otherwise an
// error that wraps ErrMissing. It is for the TestMain of a package with examples, because
// an example cannot skip itself.
func FindPostgres() error {
	_, err := postgresPrograms()
	return err
}

// postgresPrograms returns the folder of the server's programs: the folder of
// `postgres` in PATH or, if there is none, the folder of the newest version that Debian
// installed.
func postgresPrograms() (string, error) {
	path, missing := program("postgres")
	if missing == nil {
		path, err := filepath.EvalSymlinks(path) // initdb is in the folder of the real file
		return filepath.Dir(path), err
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.Join(missing, err)
	}
	version := func(path string) int {
		v, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 if it is not a number
		return v
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(version(a), version(b)) })
	return filepath.Dir(newest), nil
}

// unprivileged returns the user that the server runs as. It returns nil if this process
// does not run as root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// asOwner makes cmd run as the server's owner, in a folder that this user can enter.
func (p *PostgresServer) asOwner(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = p.run
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.owner}
	return cmd
}

func (p *PostgresServer) initialise(ctx context.Context) error {
	secret := p.file("password")
	if err := os.WriteFile(secret, []byte(cmp.Or(p.opt.Password, "none")), 0o600); err != nil {
		return err
	}
	if p.owner != nil {
		for _, path := range []string{p.run, secret, cmp.Or(p.opt.WAL, p.run)} {
			if err := os.Chown(path, int(p.owner.Uid), int(p.owner.Gid)); err != nil {
				return err
			}
		}
	}
	auth := "trust"
	if p.opt.Password != "" {
		auth = "scram-sha-256"
	}
	args := []string{"-D", p.data(), "-U", "postgres",
		"-E", "UTF8", "--locale=C", "--auth=" + auth, "--pwfile=" + secret, "--no-sync", "--no-instructions"}
	if p.opt.WAL != "" {
		args = append(args, "--waldir="+p.opt.WAL)
	}
	initdb := p.asOwner(exec.CommandContext(ctx, filepath.Join(p.bin, "initdb"), args...))
	if said, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w, saying:\n%s", err, tail(said))
	}
	return os.Remove(secret)
}

func (p *PostgresServer) data() string { return p.file("data") }

// config returns the settings that are appended to the postgresql.conf that initdb
// made.
func (p *PostgresServer) config() []byte {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(p.port),
		"unix_socket_directories": p.run,
		"fsync":                   "off",
		"full_page_writes":        "off",
		"max_connections":         "400", // the tests of a package share a server
		// Shared memory is in files of the data folder, which Close removes. POSIX
		// shared memory would remain after the server is killed.
		"dynamic_shared_memory_type": "mmap",
	}
	if p.opt.FSync {
		settings["fsync"], settings["full_page_writes"] = "on", "on"
	}
	maps.Copy(settings, p.opt.Config)
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	return text.Bytes()
}

// ping returns nil if the server answers a statement.
func (p *PostgresServer) ping(ctx context.Context) error { return p.exec(ctx, "SELECT 1") }

// exec runs a statement over a new connection. It connects to the unix socket, because
// another server could have taken the TCP port.
func (p *PostgresServer) exec(ctx context.Context, statement string) error {
	config, err := pgx.ParseConfig(p.DSN())
	if err != nil {
		return err
	}
	config.Host = p.run
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// Close kills the server and removes its files. A second Close does nothing.
func (p *PostgresServer) Close() error { return errors.Join(p.Kill(), p.process.Close()) }

// Kill kills the server and its child processes with SIGKILL, and waits until they have
// ended. Then it removes what marks the server as running: a shared memory segment and the
// file postmaster.pid. A system can have only a few thousand such segments. The file has
// the process id of the killed server. If another Postgres got this id meanwhile, the
// server would not start again with this file.
func (p *PostgresServer) Kill() error {
	return errors.Join(p.process.Kill(), p.removeSharedMemory(), os.RemoveAll(p.pidFile()))
}

func (p *PostgresServer) pidFile() string { return filepath.Join(p.data(), "postmaster.pid") }

// removeSharedMemory removes the System V segment that marks the data folder as in use.
func (p *PostgresServer) removeSharedMemory() error {
	pidFile, err := os.ReadFile(p.pidFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the server stopped gracefully
	}
	if err != nil {
		return err
	}
	const line = 7 // "KEY ID" of the segment
	lines := strings.Split(string(pidFile), "\n")
	if len(lines) < line {
		return nil // the server was killed before it made the segment
	}
	fields := strings.Fields(lines[line-1])
	if len(fields) != 2 {
		return nil // the server was killed before it made the segment
	}
	id, err := strconv.Atoi(fields[1])
	if err != nil {
		return fmt.Errorf("postmaster.pid: segment %q: %w", fields[1], err)
	}
	_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EIDRM) {
		return nil // the segment is already removed
	}
	return err
}

// SocketDir returns the folder of the server's unix socket. In a DSN, the folder can
// replace the host.
func (p *PostgresServer) SocketDir() string { return p.run }

// DSN returns the URL of the database "postgres" over TCP. It contains the password, if
// the options have one.
func (p *PostgresServer) DSN() string { return p.Database("postgres") }

// Database returns the URL of a database over TCP.
func (p *PostgresServer) Database(name string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: p.Addr(), Path: "/" + name, RawQuery: "sslmode=disable"}
	if p.opt.Password != "" {
		u.User = url.UserPassword("postgres", p.opt.Password)
	}
	return u.String()
}

// NewDatabase makes an empty database and returns its URL. Tests that share a server can
// each have their own database, which is cheaper than a server for each test.
func (p *PostgresServer) NewDatabase(ctx context.Context) (string, error) {
	name := fmt.Sprintf("db%d", p.databases.Add(1))
	if err := p.exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", fmt.Errorf("create database %q: %w", name, err)
	}
	return p.Database(name), nil
}
