package servers_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// dial returns a client of the server's TCP port.
func dial(t *testing.T, server *servers.RedisServer) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	opt.MaxRetries, opt.ReadTimeout = -1, 10*time.Second
	if path := server.CACert(); path != "" {
		text, err := os.ReadFile(path)
		must(t, err)
		opt.TLSConfig.RootCAs = x509.NewCertPool()
		if !opt.TLSConfig.RootCAs.AppendCertsFromPEM(text) {
			t.Fatalf("file %q contains no certificate", path)
		}
	}
	client := redis.NewClient(opt)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func count(t *testing.T, server *servers.RedisServer) int64 {
	t.Helper()
	n, err := server.Client().DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func fill(t *testing.T, server *servers.RedisServer, n int) {
	t.Helper()
	_, err := server.Client().Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range n {
			p.Set(t.Context(), fmt.Sprintf("key-%d", i), "value", 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestKilledRedisKeepsItsLog checks that everything in the append-only file survives
// SIGKILL and a restart on the same address.
func TestKilledRedisKeepsItsLog(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	fill(t, server, 100)
	must(t, server.FlushAOF(t.Context()))
	addr, pid := server.Addr(), server.Pid()
	must(t, server.Kill())
	if server.Pid() != 0 {
		t.Errorf("Pid of a killed server = %d, want 0", server.Pid())
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		_ = conn.Close()
		t.Error("a killed server accepts a connection")
	}
	must(t, server.Restart())
	if server.Addr() != addr || server.Pid() == pid {
		t.Errorf("after a restart: process %d at %s, want a new process (it was %d) at the same address %s", server.Pid(), server.Addr(), pid, addr)
	}
	if n := count(t, server); n != 100 {
		t.Errorf("%d keys after kill and restart, want 100", n)
	}
	if n, err := dial(t, server).Exists(t.Context(), "key-99").Result(); err != nil || n != 1 {
		t.Errorf("EXISTS of the last key over TCP = %d (%v), want 1", n, err)
	}
}

// TestRedisWithoutLogForgets checks that a server without a log loses its keys in a
// restart. So TestKilledRedisKeepsItsLog would fail without the log.
func TestRedisWithoutLogForgets(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	fill(t, server, 100)
	must(t, server.Restart())
	if n := count(t, server); n != 0 {
		t.Errorf("%d keys after a restart without a log, want 0", n)
	}
}

// TestCutAOF checks that cutting the last byte of a log loses only the last write.
func TestCutAOF(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true, Dir: filepath.Join(t.TempDir(), "data[1]")}) // CutAOF must not read [1] as a glob pattern
	fill(t, server, 100)
	if err := server.CutAOF(func(size int64) int64 { return size }); err == nil {
		t.Error("CutAOF of a running server: no error")
	}
	before, err := server.AOFSize()
	must(t, err)
	must(t, server.Kill())
	if err := server.CutAOF(func(size int64) int64 { return size + 1 }); err == nil {
		t.Error("CutAOF that makes the file longer: no error")
	}
	must(t, server.CutAOF(func(size int64) int64 { return size - 1 }))
	after, err := server.AOFSize()
	must(t, err)
	if after != before-1 {
		t.Errorf("AOFSize = %d after one byte was cut off, was %d before", after, before)
	}
	must(t, server.Restart())
	if n := count(t, server); n != 99 {
		t.Errorf("%d keys after the log lost one byte, want 99", n)
	}
}

// TestPausedRedisIsSilent checks that connections to a paused server stay open, and
// that it answers after Resume.
func TestPausedRedisIsSilent(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	client := dial(t, server)
	must(t, client.Ping(t.Context()).Err())
	must(t, server.Pause())
	answered := make(chan error, 1)
	go func() { answered <- client.Set(context.Background(), "key", "value", 0).Err() }()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered (%v)", err)
	case <-time.After(50 * time.Millisecond): // the answer waits for Resume
	}
	must(t, server.Resume())
	must(t, <-answered)
	must(t, server.Pause())
	must(t, server.Stop()) // a paused server can be stopped
	if err := server.Pause(); err == nil {
		t.Error("Pause of a server that is down: no error")
	}
}

// TestRedisOptions checks that the server uses the directives of the options, and that
// Client works although these contain users and passwords.
func TestRedisOptions(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{TLS: true, Config: map[string]string{
		"maxmemory":        "64mb",
		"maxmemory-policy": "noeviction",
		"requirepass":      "se/cret",
		"user":             "reader on >one +get ~*\nwriter on >two +set ~*",
	}})
	client := dial(t, server)
	must(t, client.Ping(t.Context()).Err())
	if server.CACert() == "" || !strings.HasPrefix(server.URL(), "rediss://") {
		t.Errorf("URL %q, CACert %q; want a rediss:// URL and a file of certificates", server.URL(), server.CACert())
	}
	limit, err := server.Info("memory", "maxmemory")
	must(t, err)
	if limit != "67108864" {
		t.Errorf("maxmemory is %q, want 67108864", limit)
	}
	users, err := server.Client().Do(t.Context(), "ACL", "USERS").StringSlice()
	must(t, err)
	if got := strings.Join(users, " "); !strings.Contains(got, "reader") || !strings.Contains(got, "writer") {
		t.Errorf("users are %q, want reader and writer among them", got)
	}
}

// TestRedisCosts checks that processor time, memory and log size grow with the work.
func TestRedisCosts(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	cpu, err := server.CPU()
	must(t, err)
	memory, err := server.UsedMemory()
	must(t, err)
	aof, err := server.AOFSize()
	must(t, err)
	fill(t, server, 20_000)
	if now, err := server.CPU(); err != nil || now <= cpu {
		t.Errorf("CPU = %v after 20,000 writes, want more than the %v before (%v)", now, cpu, err)
	}
	if now, err := server.UsedMemory(); err != nil || now < memory+20_000*50 {
		t.Errorf("UsedMemory = %d after 20,000 writes, was %d before (%v); want 50 bytes more for each write", now, memory, err)
	}
	if now, err := server.AOFSize(); err != nil || now < aof+20_000*30 {
		t.Errorf("AOFSize = %d after 20,000 writes, was %d before (%v); want 30 bytes more for each write", now, aof, err)
	}
}

// TestMissingRedis checks the error of StartRedis if redis-server is not installed.
func TestMissingRedis(t *testing.T) {
	t.Setenv("PATH", "")
	if _, err := servers.StartRedis(t.Context(), servers.RedisOptions{}); !errors.Is(err, servers.ErrMissing) {
		t.Errorf("StartRedis of a missing program: %v, want ErrMissing", err)
	}
}

// TestStartRedis checks the errors of StartRedis, and that Close removes the socket but
// keeps the data in RedisOptions.Dir.
func TestStartRedis(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
		t.Skip(err)
	}
	bad := servers.RedisOptions{Config: map[string]string{"no-such-directive": "1"}}
	if _, err := servers.StartRedis(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("StartRedis with a wrong directive: %v, want an error with the server's output", err)
	}
	opt := servers.RedisOptions{AppendOnly: true, Dir: t.TempDir()}
	for round := range int64(2) {
		server, err := servers.StartRedis(t.Context(), opt)
		must(t, err)
		if n, err := server.Client().Incr(t.Context(), "rounds").Result(); err != nil || n != round+1 {
			t.Errorf("round %d: counter is %d (%v), want %d", round, n, err, round+1)
		}
		must(t, server.Close())
		must(t, server.Close())
		if _, err := os.Stat(server.Socket()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("socket after Close: %v, want no such file", err)
		}
	}
}
