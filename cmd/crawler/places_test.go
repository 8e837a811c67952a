package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// placed is an empty crawl in one of the places in which crawls are kept.
type placed struct {
	*testing.T
	at       []string             // the flags that name it
	queue    *servers.RedisServer // nil means that it is in a directory
	postgres bool
}

// eachPlace runs a test for a crawl in a directory, one in Redis, and one in Redis with Postgres.
func eachPlace(t *testing.T, test func(c placed)) {
	eachNewPlace(t, func(c placed) {
		c.crawl("--urls", "1000")
		test(c)
	})
}

// eachNewPlace is like eachPlace, but does not create the crawls.
func eachNewPlace(t *testing.T, test func(c placed)) {
	for _, name := range []string{"dir", "redis", "postgres"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := placed{T: t, postgres: name == "postgres"}
			if name == "dir" {
				c.at = []string{"--dir", filepath.Join(t.TempDir(), "a.crawl")}
			} else {
				c.queue = servers.Redis(t, servers.RedisOptions{})
				c.at = []string{"--redis", c.queue.URL(), "--name", "n", "--dir", filepath.Join(t.TempDir(), "w")}
			}
			if c.postgres {
				c.at = append(c.at, "--postgres", servers.Postgres(t, servers.PostgresOptions{}).DSN())
			}
			test(c)
		})
	}
}

// do runs a command, and returns what it prints on stdout.
func (c placed) do(command string, args ...string) (string, error) {
	out, err := exec.Command("crawler", slices.Concat([]string{command}, c.at, args)...).Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		out = append(out, failed.Stderr...)
	}
	return string(out), err
}

// must is like do, and fails the test after an error.
func (c placed) must(command string, args ...string) string {
	c.Helper()
	out, err := c.do(command, args...)
	if err != nil {
		c.Fatalf("%s %q: %v: %s", command, args, err, out)
	}
	return out
}

// killed runs a command, which must end at a crash point.
func (c placed) killed(point, command string, args ...string) {
	c.Helper()
	if out, err := c.do(command, append(args, "--crash-at", point+":1")...); err == nil {
		c.Fatalf("%s did not reach the crash point %q: %s", command, point, out)
	}
}

// crawl runs the crawl for a moment, in which it reaches no page.
func (c placed) crawl(flags ...string) {
	c.Helper()
	out, err := c.do("crawl", append(flags, "--max-time", "1ms", "--connect-to", "*=127.0.0.1:1", "http://z.test/")...)
	failed, is := errors.AsType[*exec.ExitError](err)
	if err != nil && (!is || failed.ExitCode() != 4) { // 4: no seed was reached
		c.Fatalf("crawl %q: %v: %s", flags, err, out)
	}
}
