package redisstore

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/internal/redisbits"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

const crawlPassword = "correct-horse"

// crawlUser returns the ACL directive of a user that is allowed to run the given commands
// on the keys of crawls.
func crawlUser(commands []string) string {
	allowed := []string{"crawl on >" + crawlPassword + " resetkeys ~crawler:* ~{*}* resetchannels -@all +multi +exec +discard +hello"}
	for _, command := range commands {
		allowed = append(allowed, "+"+strings.ToLower(commandName(command)))
	}
	return strings.Join(allowed, " ")
}

// commandName returns the name that ACL rules use for an entry of commands.
func commandName(command string) string {
	name, rest, _ := strings.Cut(command, " ")
	if name == "SCRIPT" {
		name += "|" + strings.Fields(rest)[0]
	}
	return name
}

func asCrawlUser(addrs ...string) redis.UniversalOptions {
	return redis.UniversalOptions{Addrs: addrs, Username: "crawl", Password: crawlPassword}
}

// TestDeniedCommands: every command that a script runs is in the list named commands.
// TestSuiteOnServer shows that a crawl needs no commands outside the list.
func TestDeniedCommands(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) < 10 {
		t.Fatalf("scripts are %q (%v), want at least 10", files, err)
	}
	called := regexp.MustCompile(`(?:redis\.call|all)\('([A-Z]+)'`)
	for _, file := range append(files, "../../internal/redisbits/block.lua") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range called.FindAllStringSubmatch(string(text), -1) {
			if !slices.ContainsFunc(commands, func(c string) bool { return commandName(c) == match[1] }) {
				t.Errorf("%s runs %s, which is not in the list commands", file, match[1])
			}
		}
	}
}

// TestOpenRefusesServers: Open refuses a server on which a crawl would lose its
// filter or fail later, and the error says why.
func TestOpenRefusesServers(t *testing.T) {
	t.Parallel()
	without := func(names ...string) string {
		return crawlUser(slices.DeleteFunc(slices.Clone(commands), func(c string) bool { return slices.Contains(names, commandName(c)) }))
	}
	for name, c := range map[string]struct {
		config map[string]string
		want   string
	}{
		"evicts":          {map[string]string{"maxmemory-policy": "allkeys-lru", "user": crawlUser(commands)}, "allkeys-lru"},
		"commands denied": {map[string]string{"user": without("ZADD", "EVALSHA")}, "may not run evalsha, zadd"},
		"keys denied":     {map[string]string{"user": strings.Replace(crawlUser(commands), "~{*}*", "", 1)}, "~{*}*"},
		"multi denied":    {map[string]string{"user": strings.Replace(crawlUser(commands), "+multi", "", 1)}, "may not run multi"},
		"all denied":      {map[string]string{"user": "crawl on >" + crawlPassword + " ~* -@all"}, "info"},
		"wrong password":  {map[string]string{"user": "crawl on >another ~* +@all"}, "WRONGPASS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servers.Redis(t, servers.RedisOptions{Config: c.config})
			cfg := config(server)
			opt := asCrawlUser(server.Addr())
			cfg.Redis = &opt
			s, err := Open(t.Context(), cfg)
			if err == nil {
				_ = s.Close()
				t.Fatal("Open accepted the server")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), crawlPassword) {
				t.Errorf("the error is %q, want it to contain %q and no password", err, c.want)
			}
			if name == "evicts" && !(errors.Is(err, ErrServer) && errors.Is(err, redisbits.ErrEvicts)) {
				t.Errorf("the error is %v, want %v and %v", err, ErrServer, redisbits.ErrEvicts)
			}
			if keys := server.Client().DBSize(t.Context()).Val(); keys != 0 {
				t.Errorf("a refused server has %d keys, want none", keys)
			}
		})
	}
}

// TestCommandsAreNotRun: a check of the permissions adds and removes no keys.
func TestCommandsAreNotRun(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	s := openStore(t, config(server))
	before := server.Client().DBSize(t.Context()).Val()
	if err := s.checkServers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := server.Client().DBSize(t.Context()).Val(); after != before {
		t.Errorf("before the check the server had %d keys, after it %d", before, after)
	}
}

// TestEpochRefusesEviction: during a crawl, a server is configured to evict keys. It is
// refused when its scripts are loaded the next time.
func TestEpochRefusesEviction(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	s := openStore(t, config(server))
	admin := server.Client()
	if err := errors.Join(
		admin.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lfu").Err(), admin.ScriptFlush(t.Context()).Err()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(t.Context(), testPages("a.test", 0, 1)); !errors.Is(err, ErrServer) {
		t.Errorf("Add = %v, want %v", err, ErrServer)
	}
}

// TestOldServer: Open refuses a version that keeps scripts over a restart. The test's
// server answers only INFO.
func TestOldServer(t *testing.T) {
	for version, executable := range map[string]string{"6.2.14": "/usr/bin/redis-server", "KeyDB 6.3.4": "/usr/bin/keydb-server"} {
		testOldServer(t, version, "# Server\r\nredis_version:"+strings.TrimPrefix(version, "KeyDB ")+"\r\nredis_mode:standalone\r\nexecutable:"+executable+"\r\n")
	}
}

func testOldServer(t *testing.T, version, info string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answerInfo(conn, info)
		}
	}()
	_, err = Open(t.Context(), Config{Redis: &redis.UniversalOptions{Addrs: []string{listener.Addr().String()}}, Name: "old"})
	if !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), `"`+version+`", want Redis 7.0`) {
		t.Errorf("Open = %v, want %v that names %s", err, ErrServer, version)
	}
}

func answerInfo(conn net.Conn, info string) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() { // each argument of a command is a line
		switch strings.ToLower(lines.Text()) {
		case "hello", "auth", "select":
			fmt.Fprint(conn, "-ERR unknown command\r\n")
		case "info":
			fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(info), info)
		}
	}
}

// TestDocumentedUser: the user that docs/guide/operating.md creates can crawl.
func TestDocumentedUser(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guide/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "ACL SETUSER crawl ")
	rules, _, ended := strings.Cut(rest, "\n```")
	if !found || !ended {
		t.Fatal("docs/guide/operating.md has no command that creates the user")
	}
	rules = strings.Replace(strings.Join(strings.Fields(rules), " "), ">PASSWORD", ">"+crawlPassword, 1)
	for name, at := range map[string]func() (addrs []string, admin *redis.Client){
		"server": func() ([]string, *redis.Client) {
			server := servers.Redis(t, servers.RedisOptions{Config: map[string]string{"user": "crawl " + rules}})
			return []string{server.Addr()}, server.Client()
		},
		"cluster": func() ([]string, *redis.Client) {
			node := servers.RedisOptions{Config: map[string]string{"user": "crawl " + rules}}
			cluster := servers.RedisCluster(t, servers.ClusterOptions{Node: node, NodeTimeout: calm})
			return cluster.Addrs(), cluster.Nodes[0].Client()
		},
	} {
		t.Run(name, func(t *testing.T) {
			addrs, admin := at()
			opt := asCrawlUser(addrs...)
			s := openStore(t, Config{Redis: &opt, Name: "test", SeenCache: DefaultSeenCache, Partitions: 4})
			variety(t, s)
			for _, command := range [][]any{{"flushall"}, {"keys", "*"}, {"config", "get", "*"}} {
				dryRun := append([]any{"acl", "dryrun", "crawl"}, command...)
				if answer := admin.Do(t.Context(), dryRun...).Val(); answer == "OK" || answer == nil {
					t.Errorf("the user must not be allowed to run %v, but ACL DRYRUN answers %v", command, answer)
				}
			}
		})
	}
}
