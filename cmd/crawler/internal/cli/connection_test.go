package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher"
)

// TestResumeLineOfConnections: the line that resumes a crawl names each server, but no
// user, no password and no value from the environment. The notes say what is left out.
func TestResumeLineOfConnections(t *testing.T) {
	password := filepath.Join(t.TempDir(), "p")
	config := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(password, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("redis: redis://u:hush@h\npostgres: postgres://v:hush@i/d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		environ, args []string
		line          string // after "crawler crawl"
		notes         []string
	}{
		{
			args:  []string{"--redis", "redis://u:hush@h:1?db=2", "--name", "n"},
			line:  "--redis 'redis://h:1?db=2' --name n --dir w",
			notes: []string{"a part of --redis is not shown: write the whole URL, or set CRAWLER_REDIS to it"},
		},
		{
			args:  []string{"--redis", "redis://u:hush@h", "--name", "n", "--redis-password-file", password},
			line:  "--redis redis://h --name n --redis-password-file " + password + " --dir w",
			notes: []string{"a part of --redis is not shown: write the whole URL, or set CRAWLER_REDIS to it"},
		},
		{
			environ: []string{"CRAWLER_REDIS=redis://u:hush@h", "CRAWLER_NAME=n", "CRAWLER_POSTGRES=postgres://v:hush@i/d"},
			line:    "--dir w",
			notes:   []string{"it also needs, from the environment: CRAWLER_NAME, CRAWLER_POSTGRES, CRAWLER_REDIS"},
		},
		{
			args:    []string{"--redis", "redis://h", "--name", "n", "--postgres", "postgres://v:hush@i/d?sslmode=disable&password=hush"},
			environ: []string{"CRAWLER_REDIS_PASSWORD_FILE=" + password},
			line:    "--redis redis://h --name n --postgres 'postgres://i/d?sslmode=disable' --dir w",
			notes: []string{
				"a part of --postgres is not shown: write the whole URL, or set CRAWLER_POSTGRES to it",
				"it also needs, from the environment: CRAWLER_REDIS_PASSWORD_FILE",
			},
		},
		{
			args:    []string{"--redis", "redis://h", "--name", "n", "--postgres", "postgres://v@i/d"},
			environ: []string{"PGPASSWORD=hush"},
			line:    "--redis redis://h --name n --postgres postgres://i/d --dir w",
			notes:   []string{"a part of --postgres is not shown: write the whole URL, or set CRAWLER_POSTGRES to it", "it also needs, from the environment: PGPASSWORD"},
		},
		{
			args: []string{"--config", config, "--name", "n"},
			line: "--name n --dir w --config " + config,
		},
		{
			args: []string{"--redis", "redis://h", "--name", "n", "--proxy", "http://u:hush@p:1", "-H", "Cookie: hush", "-H", "DNT: 1"},
			line: "--redis redis://h --name n --dir w -H 'Dnt: 1' --proxy http://p:1",
			notes: []string{
				"a part of --proxy is not shown: write the whole URL, or set CRAWLER_PROXY to it",
				"the header Cookie is not shown: add it with -H again",
			},
		},
	} {
		o := new(options)
		flags := crawlFlags(o)
		if err := flags.Parse(test.args); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PGPASSWORD", "")
		for _, pair := range test.environ {
			name, value, _ := strings.Cut(pair, "=")
			t.Setenv(name, value)
		}
		l, err := readLayers(t.Context(), flags, slices.DeleteFunc(slices.Clone(test.environ), func(s string) bool { return strings.HasPrefix(s, "PG") }))
		if err != nil {
			t.Fatal(err)
		}
		o.from = l.from
		db, err := o.database()
		if err != nil {
			t.Fatal(err)
		}
		at := location{Location: crawl.Location{Redis: &crawl.Redis{URL: o.redis, Name: o.name}, Postgres: db}, names: &o.sharedFlags}
		r := &running{plan: &plan{options: o, layers: l, at: at}, dir: "w"}
		r.allFed.Store(true)
		if got, want := r.resumeLine(fetcher.Stopped), program()+" crawl "+test.line; got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", test.args, got, want)
		}
		if got := r.resumeNotes(); !slices.Equal(got, test.notes) {
			t.Errorf("%q: notes\ngot  %q\nwant %q", test.args, got, test.notes)
		}
		for _, pair := range test.environ {
			name, _, _ := strings.Cut(pair, "=")
			t.Setenv(name, "")
		}
	}
}

// TestCommandLeavesOutTheEnvironment: the printed line of a command other than crawl also
// leaves out values from the environment, even if the command reads the environment
// twice.
func TestCommandLeavesOutTheEnvironment(t *testing.T) {
	t.Setenv("CRAWLER_REDIS", "redis://u:hush@h")
	f := new(sharedFlags)
	flags := pflag.NewFlagSet("rebuild", pflag.ContinueOnError)
	f.addTo(flags)
	if err := flags.Set("name", "n"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		at, err := f.wanted(flags)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := at.command("rebuild"), program()+" rebuild --name n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestPasswordsWithDelimiters: no error about a URL contains a part of its password,
// whatever characters the password has.
func TestPasswordsWithDelimiters(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, delimiter := range []string{"?", "#", "/", "@", "%", " ", ":", "\\", "[", "'"} {
		for _, password := range []string{"hush" + delimiter + "77", "77" + delimiter + "hush", "77" + delimiter + "1"} {
			for _, args := range [][]string{
				{"status", "--name", "n", "--redis", "redis://u:" + password + "@127.0.0.1:1/x"},
				{"status", "--name", "n", "--redis", "redis://:" + password + "@127.0.0.1:1"},
				{"status", "--name", "n", "--redis", "redis://" + password + "@127.0.0.1:1"},
				{"migrate", "--postgres", "postgres://u:" + password + "@127.0.0.1:1/d"},
				{"migrate", "--postgres", "postgresql://:" + password + "@127.0.0.1:1/d?x=y"},
				{"crawl", "--proxy", "http://u:" + password + "@127.0.0.1:x", "http://a.test/"},
			} {
				code, out, errs := run(t, "", args...)
				if code == exitOK || strings.Contains(out+errs, "hush") || strings.Contains(out+errs, "77") {
					t.Errorf("%q: exit code %d, want an error without the password: %s%s", args, code, out, errs)
				}
			}
		}
	}
}
