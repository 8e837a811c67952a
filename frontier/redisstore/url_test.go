package redisstore

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		url            string
		addrs          string
		user, password string
		db             int
	}{
		{"redis://localhost", "localhost:6379", "", "", 0},
		{"redis://10.0.0.1:7000/3", "10.0.0.1:7000", "", "", 3},
		{"redis://[::1]", "[::1]:6379", "", "", 0},
		{"redis+sentinel://a,b:7001/crawls", "a:26379 b:7001", "", "", 0},
		{"redis+sentinel://u:p@a,b/crawls/3", "a:26379 b:26379", "u", "p", 3},
		{"redis://a,b:7001,[::1]:7002", "a:6379 b:7001 [::1]:7002", "", "", 0},
		{"redis://u:p%40ss@a", "a:6379", "u", "p@ss", 0},
		{"redis://u:p@ss@a", "a:6379", "u", "p@ss", 0},
		{"redis://:secret@a,b", "a:6379 b:6379", "", "secret", 0},
		{"redis://secret@a", "a:6379", "", "secret", 0},
		{"redis://u:p/1#2@a/3", "a:6379", "u", "p/1#2", 3},
		{"redis://u:@a", "a:6379", "u", "", 0},
		{"unix:///run/redis.sock", "/run/redis.sock", "", "", 0},
		{"unix://u:p@/run/redis.sock?db=2", "/run/redis.sock", "u", "p", 2},
	} {
		opt, err := ParseURL(c.url)
		if err != nil {
			t.Errorf("ParseURL(%q): %v", c.url, err)
			continue
		}
		if got := strings.Join(opt.Addrs, " "); got != c.addrs || opt.Username != c.user || opt.Password != c.password || opt.DB != c.db {
			t.Errorf("ParseURL(%q) = %s, user %q, password %q, database %d, want %s, %q, %q, %d",
				c.url, got, opt.Username, opt.Password, opt.DB, c.addrs, c.user, c.password, c.db)
		}
		if opt.TLSConfig != nil {
			t.Errorf("ParseURL(%q) asks for TLS", c.url)
		}
	}
	sentinel, err := ParseURL("rediss+sentinel://u:p@a/crawls?sentinel_username=s&sentinel_password=%40x")
	if err != nil || sentinel.TLSConfig == nil || sentinel.MasterName != "crawls" || sentinel.SentinelUsername != "s" || sentinel.SentinelPassword != "@x" {
		t.Errorf("ParseURL of rediss+sentinel:// = %+v, %v, want TLS, the primary and both users", sentinel, err)
	}
	opt, err := ParseURL("rediss://a.test")
	if err != nil || opt.TLSConfig == nil {
		t.Errorf("ParseURL of rediss:// = %+v, %v, want TLS", opt, err)
	}
}

// TestParseURLKeepsSecrets: no error shows a part of the user or the password.
func TestParseURLKeepsSecrets(t *testing.T) {
	const secret = "hunter2"
	for _, url := range []string{
		"redis+sentinel://u:hunter2@a", "redis+sentinel://u:hunter2@a/m/x", "unix+sentinel://u:hunter2@a/m", "redis://a?sentinel_password=hunter2",
		"http://u:hunter2@a", "hunter2", "redis://u:hunter2@", "redis://u:hunter2%zz@a", "redis://u:hunter2@a:x",
		"redis://u:hunter2@a/x", "redis://u:hunter2@a,b/1", "redis://u:hunter2@a?x=1", "redis://u:hunter2@a?ca=x",
		"redis://u:hunter2@a?%zz", "unix://u:hunter2@run", "rediss://u:hunter2@a?ca=/does/not/exist", "redis://u:hunter2@a,,b",
		"redis://u:hunter2@a/-1", "redis://u:hunter2?x@a/1", "redis://:hunter2?x@a:1", "redis://hunter2?@a", "unix://u:hunter2?x@/s",
		"redis://u:x?hunter2@a", "redis://u:hunter2#x@a/x", "redis://u:hunter2/x@a/x", "redis://u:hunter2@x@a/x",
	} {
		_, err := ParseURL(url)
		if err == nil {
			t.Errorf("ParseURL(%q): no error", url)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("ParseURL(%q) = %v, which shows the secret", url, err)
		}
	}
}

// TestRefusalWithoutUser: replies that refuse a command are shown without the user.
func TestRefusalWithoutUser(t *testing.T) {
	for reply, want := range map[string]string{
		"NOPERM User hunter2 has no permissions to run the 'eval' command": "NOPERM this user has no permissions to run the 'eval' command",
		"NOPERM this user has no permissions to run the 'eval' command":    "NOPERM this user has no permissions to run the 'eval' command",
	} {
		if got := withoutUser(reply); got != want {
			t.Errorf("%q is shown as %q, want %q", reply, got, want)
		}
	}
}

func TestTLS(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{TLS: true})
	cfg := config(server)
	var err error
	if cfg.Redis, err = ParseURL("rediss://" + server.Addr() + "?ca=" + server.CACert()); err != nil {
		t.Fatal(err)
	}
	if got := mustAdd(t, openStore(t, cfg), testPages("a.test", 0, 1)); len(got) != 1 {
		t.Errorf("Add over TLS = %v, want one verdict", got)
	}
	if cfg.Redis, err = ParseURL("rediss://" + server.Addr()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server with an unknown authority: %v, want an error about its certificate", err)
	}
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ParseURL("rediss://a?ca=" + empty); err == nil {
		t.Error("ParseURL accepts a CA file without certificates")
	}
}

// FuzzParseURL: the result is an error, or addresses with ports.
func FuzzParseURL(f *testing.F) {
	f.Add("redis://u:p@a,b:1/2?db=3")
	f.Add("unix:///a")
	f.Fuzz(func(t *testing.T, url string) {
		if strings.Contains(url, "ca=") {
			return // ParseURL would read the file
		}
		opt, err := ParseURL(url)
		if err == nil && (len(opt.Addrs) == 0 || slices.Contains(opt.Addrs, "")) {
			t.Errorf("ParseURL(%q): addresses %q, want at least one and none empty", url, opt.Addrs)
		}
	})
}
