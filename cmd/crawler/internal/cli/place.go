package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// place is where a crawl is, as a command line names it.
type place struct {
	crawl.Location
	names *sharedFlags // the flags that name it; nil: only a directory does
}

func inDirectory(dir string) place { return place{Location: crawl.Location{Dir: dir}} }

// missing says that there is no crawl.
func (at place) missing() string {
	if at.Redis == nil {
		return "no crawl in " + at.Dir
	}
	return "no crawl " + at.String()
}

// keeper is what has the settings, as the source of a value.
func (at place) keeper() string {
	if at.Redis != nil {
		return "redis"
	}
	return crawlFile
}

// arguments name the crawl on a command line, without secrets and without what the
// command finds in the environment or, if it reads that, in the config file.
func (at place) arguments(readsConfig bool) (line []string) {
	if at.Redis == nil {
		line = append(line, "--dir", shellQuote(at.Dir))
	} else {
		shown, _ := shownRedis(at.names.redis)
		for _, flag := range []struct{ name, value string }{
			{"redis", shown}, {"name", at.names.name}, {"redis-ca", at.names.redisCA}, {"redis-password-file", at.names.passwordFile},
		} {
			if flag.value != "" && at.names.repeated(flag.name, readsConfig) {
				line = append(line, "--"+flag.name, shellQuote(flag.value))
			}
		}
	}
	if at.Postgres == nil || at.names == nil {
		return line
	}
	return append(line, at.names.postgresFlags.arguments(readsConfig)...)
}

// command returns the line of a command about this crawl.
func (at place) command(name string) string {
	line := program() + " " + name
	for _, argument := range at.arguments(name == "crawl") {
		line += " " + argument
	}
	return line
}

// explain adds to an error of package crawl what to do about it, in flags, and
// its exit code.
func (at place) explain(err error) error {
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
		return failed("%w\n'%s' makes the crawl again of what Postgres and the records in its workers' directories, which are in DIR, have.\n"+
			"'%s' removes it, so that it can begin anew.", lost, rebuild, at.command("delete"))
	}
	if settings, is := errors.AsType[*frontier.SettingsError](err); is {
		goOn, other := "resume", "--dir"
		if at.Redis != nil {
			goOn, other = "join it", "--name"
		}
		return usage(fmt.Errorf("%s was created with other settings, which are fixed:\n%s\n"+
			"leave them out to %s, or begin another crawl with another %s", at, differences(settings), goOn, other))
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
		return failed("%w\nput the file back, or '%s' says how many and goes on without them", err, at.command("rebuild --accept-loss"))
	}
	switch {
	case errors.Is(err, crawl.ErrNoCrawl):
		return usage(errors.New(at.missing()))
	case errors.Is(err, frontier.ErrFilterLost):
		return failed("%w\n'%s' makes it anew", err, at.command("rebuild"))
	}
	return &exitError{exitFailed, err}
}

// differences lists what differs, both values of each.
func differences(settings *frontier.SettingsError) string {
	var lines []string
	form := ""
	for _, d := range settings.Differ {
		switch d.Name {
		case formSetting:
			form = fmt.Sprintf("  the canonical form of URLs is %q there, %q here", d.Stored, d.Given)
		case "exact-set":
			lines = append(lines, "  exact keys "+keeperOf(d.Stored)+" there, "+keeperOf(d.Given)+" here")
		case hostsSetting:
			lines = append(lines, fmt.Sprintf("  hosts in the config file are %s there, %s here", d.Stored, d.Given))
		default:
			lines = append(lines, fmt.Sprintf("  --%s is %s there, %s here", d.Name, d.Stored, d.Given))
		}
	}
	if lines == nil { // else it differs because a flag does
		lines = append(lines, form)
	}
	return strings.Join(lines, "\n")
}

// keeperOf says in words where the exact keys are.
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

// directoryOf returns the place of the crawl in a directory that a command names,
// or of the one in the current directory.
func directoryOf(dir string) (place, error) {
	if dir == "" {
		dir = os.Getenv(envName("dir"))
	}
	if dir == "" {
		var err error
		if dir, err = findDir(); errors.Is(err, errNoCrawl) {
			return place{}, usage(errors.New("no crawl in this directory: name one with --dir"))
		} else if err != nil {
			return place{}, usage(err)
		}
	}
	return inDirectory(dir), nil
}

// attached is the crawl that a command looks at or steers.
type attached struct {
	at place
	*crawl.Handle
}

// attach returns the crawl in a place.
func (at place) attach(ctx context.Context) (*attached, error) {
	h, err := crawl.Attach(ctx, at.Location)
	if err != nil {
		return nil, at.explain(err)
	}
	return &attached{at, h}, nil
}
