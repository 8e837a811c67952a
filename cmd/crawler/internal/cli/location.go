package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// location is the location of a crawl, with the flags that name it.
type location struct {
	crawl.Location
	names *sharedFlags // flags that name a Redis or a Postgres; nil if the command has none
}

func inDirectory(dir string) location { return location{Location: crawl.Location{Dir: dir}} }

// isFile reports whether a path leads to something other than a directory.
func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// missing returns the message that there is no crawl.
func (at location) missing() string {
	if at.Redis == nil {
		return "no crawl in " + at.Dir
	}
	return "no crawl " + at.String()
}

// keeper returns the name of the place where the settings are stored. Messages name it as
// the source of a flag's value.
func (at location) keeper() string {
	if at.Redis != nil {
		return "redis"
	}
	return crawlFile
}

// command returns the line that runs a command on this crawl, without secrets. It leaves
// out flags whose values the command finds in the environment or in the config file.
func (at location) command(name string) string {
	line := program() + " " + name
	add := func(flag, value string) {
		if value != "" && at.names.repeated(flag, name == "crawl") {
			shown, _ := withoutSecret(flag, value)
			line += " --" + flag + " " + shellQuote(shown)
		}
	}
	if at.Redis == nil {
		line += " --dir " + shellQuote(at.Dir)
	} else {
		add("redis", at.names.redis)
		add("name", at.names.name)
		add("redis-ca", at.names.redisCA)
		add("redis-password-file", at.names.passwordFile)
	}
	if at.Postgres != nil && at.names != nil {
		add("postgres", at.names.postgres)
		add("postgres-password-file", at.names.postgresPassword)
	}
	return line
}

// explain adds an exit code to an error of package crawl, and names the flags or commands
// that would help.
func (at location) explain(err error) error {
	if err == nil {
		return nil
	}
	if exit := new(exitError); errors.As(err, &exit) {
		return err
	}
	failed := func(format string, args ...any) error {
		return &exitError{exitFailed, fmt.Errorf(format, args...)}
	}
	if lost, is := errors.AsType[*crawl.LostError](err); is {
		rebuild := at.command("rebuild")
		if at.Dir == "" {
			rebuild += " [--dir DIR]"
		} else {
			rebuild += " --dir " + shellQuote(at.Dir)
		}
		return failed("%w\n'%s' restores the crawl from Postgres and from the records in its workers' directories, which are in DIR.\n"+
			"'%s' deletes it, so that it can begin again.", lost, rebuild, at.command("delete"))
	}
	if settings, is := errors.AsType[*frontier.SettingsError](err); is {
		goOn, other := "resume", "--dir"
		if at.Redis != nil {
			goOn, other = "join it", "--name"
		}
		return usage(fmt.Errorf("%s was created with other settings, which are fixed:\n%s\n"+
			"leave them out to %s, or begin another crawl with another %s", at, differences(settings), goOn, other))
	}
	if live, is := errors.AsType[*crawl.LiveError](err); is {
		return at.explainLive(live)
	}
	if secret, is := errors.AsType[*crawl.SecretError](err); is {
		return usage(fmt.Errorf("%w\ngive the value of the crawl, or let all its workers have the new one:\n  %s", err,
			at.command("set")+" --new-secret "+shellQuote(secret.Header)))
	}
	if errors.Is(err, crawl.ErrRefused) {
		return usage(err)
	}
	if missing, is := errors.AsType[*crawl.MissingError](err); is {
		return usage(fmt.Errorf("%w\ngive them again, or add --anyway to go on without them", missing))
	}
	if location, is := errors.AsType[*crawl.LocationError](err); is {
		if location.Postgres {
			return usage(fmt.Errorf("%w: name it with --postgres", location))
		}
		return usage(location)
	}
	if worker, is := errors.AsType[*crawl.WorkerError](err); is {
		return usage(fmt.Errorf("%w: name the crawl with --redis and --name", worker))
	}
	if missing, is := errors.AsType[*record.MissingError](err); is && missing.Name == crawl.RecordsFile(at.Dir) {
		return failed("%w\nput the file back, or run '%s', which prints their number and continues without them", err, at.command("rebuild --accept-loss"))
	}
	switch {
	case errors.Is(err, syscall.ENOTDIR) && isFile(at.Dir):
		return usage(err)
	case errors.Is(err, crawl.ErrNoCrawl):
		return usage(errors.New(at.missing()))
	case errors.Is(err, frontier.ErrFilterLost):
		return failed("%w\n'%s' rebuilds it", err, at.command("rebuild"))
	}
	return &exitError{exitFailed, err}
}

// differences lists the settings that differ, each with its stored and its given value.
func differences(e *frontier.SettingsError) string {
	var lines []string
	form := ""
	for _, d := range e.Differ {
		switch d.Name {
		case formSetting:
			form = fmt.Sprintf("  the canonical form of URLs is %q there, %q here", d.Stored, d.Given)
		case "exact-set":
			lines = append(lines, "  exact keys "+keeperOf(d.Stored)+" there, "+keeperOf(d.Given)+" here")
		case tokenSetting:
			lines = append(lines, fmt.Sprintf("  the first word of --user-agent, which robots.txt matches, is %q there, %q here", d.Stored, d.Given))
		case hostsSetting:
			lines = append(lines, fmt.Sprintf("  hosts in the config file are %s there, %s here", settings.WithDelays(d.Stored), settings.WithDelays(d.Given)))
		default:
			lines = append(lines, fmt.Sprintf("  --%s is %s there, %s here", d.Name, d.Stored, d.Given))
		}
	}
	if lines == nil { // no other setting explains why the form differs
		lines = append(lines, form)
	}
	return strings.Join(lines, "\n")
}

// keeperOf returns a phrase that says where the exact keys are stored.
func keeperOf(exactSet string) string {
	if exactSet == "" {
		return "are in Redis (no --postgres)"
	}
	return "are in Postgres (--postgres)"
}

func addDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "the crawl's `DIR` (default CRAWLER_DIR, or the crawl in the current directory)")
	complete(cmd)
}

// directoryOf returns dir or, if dir is empty, the value of CRAWLER_DIR. If both are empty,
// directoryOf looks for a crawl in the current directory.
func directoryOf(dir string) (string, error) {
	if dir = cmp.Or(dir, os.Getenv(envName("dir"))); dir != "" {
		return dir, nil
	}
	dir, err := findDir()
	if errors.Is(err, errNoCrawl) {
		err = errNoCrawlHere
	}
	return dir, err
}

var errNoCrawlHere = errors.New("no crawl in this directory: name one with --dir")

// attached is the crawl that a command inspects or controls.
type attached struct {
	at location
	*crawl.Handle
}

// with opens a Handle on the crawl, and calls fn with this Handle. An error of either step
// is passed to location.explain.
func (at location) with(ctx context.Context, fn func(ctx context.Context, c *attached) error) error {
	h, err := crawl.Attach(ctx, at.Location)
	if err == nil {
		err = fn(ctx, &attached{at, h})
	}
	return at.explain(err)
}
