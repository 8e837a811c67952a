package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// secret is a part of each user, password and token in these tests. No text of a command may
// contain it.
const secret = "geheim"

// runFor runs a command that is stopped after some time.
func runFor(t *testing.T, limit time.Duration, args ...string) (code int, output string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	text := &said{more: make(chan struct{}, 1)}
	code = Run(ctx, args, strings.NewReader(""), text, text)
	return code, text.text.String()
}

// TestNoCommandShowsSecrets runs each command with each kind of URL that it takes: malformed ones,
// ones of servers that do not answer, and ones of servers that refuse the user. No output and no
// file may contain a user, a password or a token.
func TestNoCommandShowsSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	queue := servers.Redis(t, servers.RedisOptions{Config: map[string]string{"user": "geheim on >geheim ~none +ping"}})
	database := servers.Postgres(t, servers.PostgresOptions{Password: "other"})
	stream := servers.NATS(t, servers.NATSOptions{Config: `authorization { user: a, password: b }`})
	const user, closed = "geheim:geheim@", "127.0.0.1:1"
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusForbidden)
	}))
	t.Cleanup(hook.Close)
	malformed := func(scheme string, more ...string) []string {
		urls := []string{scheme + "://" + user + closed + "x/1", scheme + "://" + user, scheme + "://" + user + "[::1/x",
			scheme + "://u:1/geheim@" + closed, scheme + "://geheim?x@" + closed, scheme + "://u:%zz" + user + closed,
			scheme + "//" + user + closed, "other://" + user + closed, user + closed, scheme + "://" + closed + "/1?geheim=geheim"}
		return append(urls, more...)
	}
	sinks := slices.Concat(malformed("nats"), malformed("https"), []string{
		"nats://" + user + stream.Addr() + "/pages", "nats://" + user + closed + "/pages", "kafka://" + user + closed + "/pages?sasl=geheim",
		"kafka://" + user + closed + "/pages", "https://" + user + closed + "/geheim", "http://" + user + hook.Listener.Addr().String() + "/geheim?geheim"})
	urls := map[string][]string{
		"redis":    malformed("redis", "redis://"+user+closed, "redis://"+user+queue.Addr(), "redis://geheim:geheim2@"+queue.Addr()),
		"postgres": malformed("postgres", "postgres://"+user+closed+"/d", "postgres://"+user+database.Addr()+"/d", "postgres://"+database.Addr()+"/d?user=geheim&password=geheim"),
		"proxy":    malformed("http", "http://"+user+closed, "socks5://"+user+hook.Listener.Addr().String(), "http://"+user+hook.Listener.Addr().String()),
		"to":       sinks, "events": sinks,
	}
	must(t, "crawl", "--dir", "x.crawl", "--urls", "100", "--connect-to", "*.test="+site(t), "--max-pages", "1", "http://a.test/")
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			each(sub)
		}
		words := strings.Fields(cmd.CommandPath())[1:]
		if cmd.RunE == nil || words[0] == "bench" { // package bench has its own test
			return
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			for _, url := range urls[flag.Name] {
				args := append(slices.Clone(words), "--"+flag.Name, url)
				switch {
				case flag.Name == "to" || words[0] == "try":
				case cmd.Flags().Lookup("name") != nil && flag.Name == "redis":
					args = append(args, "--name", "n")
				case cmd.Flags().Lookup("name") != nil && flag.Name == "postgres":
					args = append(args, "--redis", queue.URL(), "--name", "n")
				}
				if cmd.Flags().Lookup("log-level") != nil {
					args = append(args, "--log-level", "debug")
				}
				if words[0] == "crawl" || words[0] == "config" || words[0] == "try" {
					args = append(args, "http://a.test/")
				}
				code, output := runFor(t, time.Second/2, args...)
				if strings.Contains(output, secret) {
					t.Errorf("%q: exit code %d, the output shows a secret: %s", args, code, output)
				}
			}
		})
	}
	each(newRoot(streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard}))
	noFileHas(t, secret, ".")
}

// TestNoSecretsOfServersInUse: a crawl that uses a Redis, a Postgres, a proxy and a webhook shows none
// of their users, passwords and tokens: not in its log, metrics, resume command and files, and not in
// the output of other commands.
func TestNoSecretsOfServersInUse(t *testing.T) {
	t.Chdir(t.TempDir())
	queue := servers.Redis(t, servers.RedisOptions{Config: map[string]string{"user": "geheim on >geheim ~* &* +@all"}})
	database := servers.Postgres(t, servers.PostgresOptions{Password: "other"})
	connection, err := pgx.Connect(t.Context(), database.DSN())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Exec(t.Context(), "CREATE ROLE geheim LOGIN SUPERUSER PASSWORD 'geheim'"); err != nil {
		t.Fatal(err)
	}
	_ = connection.Close(t.Context())
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusForbidden)
	}))
	t.Cleanup(away.Close)
	named := []string{"--redis", "redis://geheim:geheim@" + queue.Addr(), "--name", "n",
		"--postgres", "postgres://geheim:geheim@" + database.Addr() + "/postgres?sslmode=disable"}
	var output bytes.Buffer
	errs := &said{more: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	args := slices.Concat([]string{"crawl"}, named, []string{"--dir", "w", "--urls", "100", "--sink", "postgres", "--admin", "0", "--log-level", "debug",
		"--proxy", "http://geheim:geheim@" + away.Listener.Addr().String(), "--allow-private", "--events", away.URL + "/geheim?geheim=geheim", "http://" + site(t) + "/"})
	go func() { ended <- Run(ctx, args, strings.NewReader(""), &output, errs) }()
	base := "http://" + errs.await(t, regexp.MustCompile(`metrics on http://(127\.0\.0\.1:\d+)/metrics\n`))[1]
	for _, path := range []string{"/metrics", "/healthz", "/status", "/"} {
		response, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		output.Write(text)
	}
	stop()
	<-ended
	output.WriteString(errs.text.String())
	for _, command := range []string{"status", "status --json", "status --audit", "report", "report --json", "relay status", "relay status --json", "config", "config --json",
		"list", "pause", "resume", "stop", "explain http://127.0.0.1:1/", "retry", "seed http://127.0.0.1:2/", "output", "links", "export", "reconcile", "migrate", "rebuild", "delete --yes"} {
		words := strings.Fields(command)
		given := named
		switch words[0] {
		case "list":
			given = named[:2]
		case "migrate":
			given = named[4:]
		}
		code, text := runFor(t, 20*time.Second, slices.Concat(words, given)...)
		if code == exitUsage {
			t.Errorf("%s: exit code %d: %s", command, code, text)
		}
		output.WriteString(text)
	}
	if text := output.String(); strings.Contains(text, secret) {
		t.Errorf("the output shows a secret: %s", regexp.MustCompile(`(?m)^.*`+secret+`.*$`).FindAllString(text, -1))
	} else if !strings.Contains(text, "a part of --redis is not shown") {
		t.Errorf("the resume command does not say what it leaves out: %s", text)
	}
	noFileHas(t, secret, ".")
}
