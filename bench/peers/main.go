// Command peers compares the speed and the cost of crawler with those of two others:
// colly, and a bare loop, which gives none of crawler's guarantees.
//
//	peers layout -dir DIR                 make a site in DIR from the installed documentation of Debian packages
//	peers compare -dir DIR -crawler BIN   crawl the site in DIR with colly, the bare loop and crawler, and print the ratios
//
// compare prints a line for each crawl: peer, HTML pages, seconds, pages per second,
// the largest resident memory of the process in MiB, and its processor time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/bloomfrontier/crawler/bench/contest"
	"github.com/bloomfrontier/crawler/bench/realhtml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// run runs a subcommand. The subcommands bench, bare and colly are for the processes that
// the subcommand compare starts.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New("want a command: layout or compare")
	}
	switch verb, last := args[0], args[len(args)-1]; verb {
	case "layout":
		return layout(args[1:])
	case "compare":
		return compare(ctx, args[1:], stdout)
	case "bench": // contest.Program.Serve calls it
		return contest.Serve(ctx, last, os.Stdin, stdout)
	case "bare", "colly":
		return contest.Obey(ctx, last, stdout, peers[verb])
	default:
		return fmt.Errorf("unknown command %q, want layout or compare", verb)
	}
}

func layout(args []string) error {
	flags := flag.NewFlagSet("peers layout", flag.ContinueOnError)
	dir := flags.String("dir", "", "the folder to make")
	copies := flags.Int("copies", 10, "how often the site holds each documentation")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || *copies < 1 {
		return errors.New("layout: want -dir and at least one copy")
	}
	trees, err := realhtml.Installed()
	if err != nil {
		return err
	}
	return realhtml.LayOut(*dir, trees, *copies)
}
