// Command library is a crawler that a user of package crawl could write. It prints the
// title of each page, resumes killed crawls, and inspects crawls that other processes
// run. It imports no other package of the crawler's module. So its tests prove that
// package crawl has everything that such a program needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/bloomfrontier/crawler/crawl"
)

const usage = `usage:
  library crawl [flags] SEED...   crawl, or resume the crawl, and print each page's title
  library status [flags]          print how many URLs are done and whether a process runs the crawl
  library records [flags]         print the records of the crawl
  library export [flags]          print one record a URL, of all workers in the directory
  library audit [flags]           count the books of the crawl anew
  library stop [flags]            stop the process that runs the crawl
flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "library:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("library", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	dir := flags.String("dir", "", "directory of the crawl, or of this worker's records")
	redis := flags.String("redis", "", "URL of the Redis that workers share; empty: the crawl is in -dir")
	name := flags.String("name", "library", "name of the crawl in Redis")
	delay := flags.Duration("delay", 0, "between two requests to one host; 0: a second")
	private := flags.Bool("private", false, "request private and loopback addresses too")
	if len(args) == 0 {
		flags.Usage()
		return flag.ErrHelp
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	where := crawl.Location{Dir: *dir}
	if *redis != "" {
		where.Redis = &crawl.Redis{URL: *redis, Name: *name}
	}
	switch args[0] {
	case "crawl":
	case "export":
		_, err := crawl.Export(ctx, where, nil, "", stdout)
		return err
	default:
		return look(ctx, where, args[0], stdout)
	}
	settings := crawl.DefaultSettings()
	settings.Scope, settings.Delay, settings.Agent, settings.AllowPrivate = "any", *delay, "library/1.0", *private
	config := crawl.Config{
		Dir:      where.Dir,
		Redis:    where.Redis,
		Seeds:    flags.Args(),
		Settings: settings,
		Logger:   slog.New(slog.NewTextHandler(stderr, nil)),
		OnPage: func(_ context.Context, page *crawl.Page) error {
			_, err := fmt.Fprintf(stdout, "%s\t%s\n", page.URL, page.Document().Find("title").Text())
			return err
		},
	}
	err := crawl.Run(ctx, config)
	if errors.Is(err, crawl.ErrStopped) { // by the command stop
		return nil
	}
	return err
}

// look runs the subcommands that only inspect or stop a crawl.
func look(ctx context.Context, where crawl.Location, verb string, stdout io.Writer) error {
	crawled, err := crawl.Attach(ctx, where)
	if err != nil {
		return err
	}
	defer crawled.Close()
	switch verb {
	case "status":
		status, err := crawled.Status(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "running=%t done=%d queued=%d\n", status.Running, status.Stats.Done, status.Stats.Queued)
	case "records":
		for line, err := range crawled.Records(ctx) {
			if err != nil {
				return err
			}
			if _, err := stdout.Write(line); err != nil {
				return err
			}
		}
	case "audit":
		audit, err := crawled.Audit(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "balanced=%t\n", audit.Balanced)
	case "stop":
		ran, err := crawled.Stop(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "stopped=%t\n", ran)
	default:
		return fmt.Errorf("unknown command %q, want crawl, status, records, export, audit or stop", verb)
	}
	return nil
}
