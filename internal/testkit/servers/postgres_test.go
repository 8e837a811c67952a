package servers_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

func query[T any](t *testing.T, dsn, statement string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	defer conn.Close(t.Context())
	var value T
	must(t, conn.QueryRow(t.Context(), statement).Scan(&value))
	return value
}

// TestKilledPostgresKeepsCommits checks that commits survive SIGKILL and a restart.
func TestKilledPostgresKeepsCommits(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"application_name": "it's set"}})
	if got := query[string](t, server.DSN(), "SHOW application_name"); got != "it's set" {
		t.Errorf("application_name is %q, want \"it's set\"", got)
	}
	dsn, err := server.NewDatabase(t.Context())
	must(t, err)
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE number AS SELECT 42 AS n")
	must(t, err)
	addr := server.Addr()
	must(t, server.Kill())
	if _, err := pgx.Connect(t.Context(), dsn); err == nil {
		t.Error("a killed server accepts a connection")
	}
	must(t, server.Restart())
	if server.Addr() != addr {
		t.Errorf("after a restart: address %s, want %s", server.Addr(), addr)
	}
	must(t, server.Restart()) // gracefully this time
	if n := query[int](t, dsn, "SELECT n FROM number"); n != 42 {
		t.Errorf("after the restarts: the stored number is %d, want 42", n)
	}
}

// TestRestartAfterIDIsReused checks that a killed server starts again although another
// Postgres now has its process id. If postmaster.pid still existed, the server would refuse
// to start, because it would take the other process for the killed one.
func TestRestartAfterIDIsReused(t *testing.T) {
	t.Parallel()
	killed, other := servers.Postgres(t, servers.PostgresOptions{}), servers.Postgres(t, servers.PostgresOptions{})
	name := filepath.Join(killed.SocketDir(), "data", "postmaster.pid")
	text, err := os.ReadFile(name)
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "\n")
	must(t, killed.Kill())
	if _, err := os.Stat(name); err == nil { // Kill is allowed to remove the file
		must(t, os.WriteFile(name, []byte(strconv.Itoa(other.Pid())+"\n"+rest), 0o600))
	}
	must(t, killed.Restart())
}

// TestKilledPostgresLeavesNothing checks that Close removes the files and the shared
// memory of a killed server.
func TestKilledPostgresLeavesNothing(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{})
	pidFile, err := os.ReadFile(filepath.Join(server.SocketDir(), "data", "postmaster.pid"))
	must(t, err)
	segment := strings.Fields(strings.Split(string(pidFile), "\n")[6])
	id, err := strconv.Atoi(segment[1])
	must(t, err)
	var stat unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, &stat); err != nil {
		t.Errorf("shared memory segment %d of the running server: %v, want it to exist", id, err)
	}
	must(t, server.Kill())
	if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, &stat); err == nil {
		t.Errorf("shared memory segment %d still exists after Kill", id)
	}
	must(t, server.Close())
	if _, err := os.Stat(server.SocketDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("socket folder after Close: %v, want no such folder", err)
	}
}

// TestPausedPostgresIsSilent checks that Pause pauses the backends too.
func TestPausedPostgresIsSilent(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{})
	conn, err := pgx.Connect(t.Context(), server.DSN())
	must(t, err)
	defer conn.Close(context.Background())
	must(t, conn.Ping(t.Context()))
	must(t, server.Pause())
	answered := make(chan error, 1)
	go func() { answered <- conn.Ping(context.Background()) }()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered (%v)", err)
	case <-time.After(50 * time.Millisecond): // the answer waits for Resume
	}
	must(t, server.Resume())
	must(t, <-answered)
}

// TestPostgresPassword checks that the server refuses a wrong password.
func TestPostgresPassword(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{FSync: true, Password: "se/cret"})
	if got := query[string](t, server.DSN(), "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %q, want on", got)
	}
	wrong := strings.Replace(server.DSN(), "cret", "creed", 1)
	if _, err := pgx.Connect(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "password") {
		t.Errorf("connect with a wrong password: %v, want an error about the password", err)
	}
}
