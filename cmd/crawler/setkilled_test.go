package main

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestSetKilled kills `crawler set` before and after each of its effects. The repeated command finishes the change, which
// is then the newest version, has one number, and holds for the next run. With Postgres, the versions survive a Redis that
// loses everything.
func TestSetKilled(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(t *testing.T) (at []string, queue *servers.RedisServer){
		"dir": func(t *testing.T) ([]string, *servers.RedisServer) {
			return []string{"--dir", filepath.Join(t.TempDir(), "a.crawl")}, nil
		},
		"redis": func(t *testing.T) ([]string, *servers.RedisServer) {
			queue := servers.Redis(t, servers.RedisOptions{})
			return []string{"--redis", queue.URL(), "--name", "n", "--dir", filepath.Join(t.TempDir(), "w")}, nil
		},
		"postgres": func(t *testing.T) ([]string, *servers.RedisServer) {
			queue := servers.Redis(t, servers.RedisOptions{})
			return []string{"--redis", queue.URL(), "--name", "n", "--dir", filepath.Join(t.TempDir(), "w"),
				"--postgres", servers.Postgres(t, servers.PostgresOptions{}).DSN()}, queue
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, queue := place(t)
			do := func(command string, args ...string) (out string, err error) {
				cmd := exec.Command("crawler", slices.Concat([]string{command}, at, args)...)
				text, err := cmd.Output()
				return string(text), err
			}
			must := func(command string, args ...string) string {
				t.Helper()
				out, err := do(command, args...)
				if err != nil {
					t.Fatalf("%s %q: %v: %s", command, args, err, out)
				}
				return out
			}
			crawl := func(args ...string) {
				t.Helper()
				_, err := do("crawl", append(args, "--max-time", "1ms", "--connect-to", "*=127.0.0.1:1", "http://a.test/")...)
				failed, is := errors.AsType[*exec.ExitError](err)
				if err != nil && (!is || failed.ExitCode() != 4) { // 4: no seed was reached in this time
					t.Fatalf("crawl %q: %v", args, err)
				}
			}
			crawl("--urls", "1000")
			delays := []string{"2s", "3s"}
			for i, point := range []string{"policy", "policy stored"} {
				if _, err := do("set", "delay="+delays[i], "--why", "killed", "--crash-at", point+":1"); err == nil {
					t.Fatalf("set did not reach the crash point %q", point)
				}
				must("set", "delay="+delays[i], "--why", "repeated")
			}
			check := func(when string) {
				t.Helper()
				var versions []struct {
					Number  int
					Changes []struct{ Name, To string }
				}
				out := must("config", "--history", "--json")
				for line := range strings.Lines(out) {
					versions = append(versions, struct {
						Number  int
						Changes []struct{ Name, To string }
					}{})
					if err := json.Unmarshal([]byte(line), &versions[len(versions)-1]); err != nil {
						t.Fatalf("%v: %s", err, out)
					}
				}
				if len(versions) != 2 || versions[0].Number != 1 || versions[1].Number != 2 || versions[1].Changes[0].To != "3s" {
					t.Errorf("%s the history is %+v, want the versions 1 and 2", when, versions)
				}
				if out := must("config"); !regexp.MustCompile(`(?m)^delay +3s `).MatchString(out) {
					t.Errorf("%s the crawl has the settings %s, want a delay of 3s", when, out)
				}
				crawl("--delay", "3s") // an error if the policy has another delay
				must("status", "--audit")
			}
			check("after the kills")
			if queue == nil {
				return
			}
			if err := queue.Client().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			must("rebuild")
			check("after the rebuild")
		})
	}
}
