package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PgBouncerOptions is the configuration of a PgBouncer.
type PgBouncerOptions struct {
	// Mode is the pool_mode: session, transaction or statement.
	Mode string
	// Config has further lines of the section pgbouncer.
	Config string
}

// PgBouncerServer is a running pgbouncer in front of a Postgres server. Its methods are safe for
// concurrent use.
type PgBouncerServer struct {
	process
	opt   PgBouncerOptions
	to    *PostgresServer
	owner *syscall.Credential // the user that it runs as; nil means the user that runs this process
}

// PgBouncer starts a pgbouncer in front of to, whose clients need no password. It is closed at the
// end of the test. If pgbouncer is not installed, the test is skipped. If CRAWLER_TEST_SERVERS is
// "require", it fails instead.
func PgBouncer(t TB, to *PostgresServer, opt PgBouncerOptions) *PgBouncerServer {
	t.Helper()
	return started(t, &PgBouncerServer{opt: opt, to: to})
}

func (p *PgBouncerServer) begin(ctx context.Context) error {
	path, err := program("pgbouncer")
	if err != nil {
		return err
	}
	if p.owner, err = unprivileged(); err != nil { // pgbouncer refuses to run as root too
		return err
	}
	if p.run, err = os.MkdirTemp("", "pgbouncer-"); err != nil {
		return err
	}
	p.command = func() *exec.Cmd {
		cmd := exec.Command(path, p.file("pgbouncer.ini"))
		cmd.Dir = p.run
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.owner}
		return cmd
	}
	p.ready, p.stop = p.ping, syscall.SIGTERM
	return p.launch(ctx, func() error {
		err := errors.Join(os.WriteFile(p.file("pgbouncer.ini"), []byte(p.config()), 0o600),
			os.WriteFile(p.file("users"), []byte("\"postgres\" \"\"\n"), 0o600))
		if err != nil || p.owner == nil {
			return err
		}
		for _, path := range []string{p.run, p.file("pgbouncer.ini"), p.file("users")} {
			err = errors.Join(err, os.Chown(path, int(p.owner.Uid), int(p.owner.Gid)))
		}
		return err
	})
}

func (p *PgBouncerServer) config() string {
	return fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir = %s
auth_type = trust
auth_file = %s
admin_users = postgres
pool_mode = %s
max_client_conn = 400
%s
`, p.to.port, p.port, p.run, p.file("users"), p.opt.Mode, p.opt.Config)
}

// ping returns nil if pgbouncer and the server behind it answer. It connects to the unix socket,
// because another server could have taken the TCP port.
func (p *PgBouncerServer) ping(ctx context.Context) error {
	config, err := pgx.ParseConfig(p.Through(p.to.DSN()))
	if err != nil {
		return err
	}
	config.Host = p.run
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT 1")
	return errors.Join(err, conn.Close(ctx))
}

// Through returns the URL of a database of the server, such as Postgres.DSN, through pgbouncer.
func (p *PgBouncerServer) Through(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		panic(fmt.Sprintf("servers: the URL of a database: %v", err)) // the caller has it from this package
	}
	u.Host = p.Addr()
	return u.String()
}
