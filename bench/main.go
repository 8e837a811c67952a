// Command bench measures what is of interest to us alone: whole crawls of synthetic webs, and
// our speed and cost beside those of colly and of a bare loop, which gives none of the crawler's
// guarantees. It also measures what `crawler bench` measures, in servers that it starts.
//
//	bench measure [-n N] [-fpr P] ... NAME...   make a report; names are fpr, speed, memory, crawl and broad
//	bench layout -dir DIR                       make a site in DIR from the installed documentation of Debian packages
//	bench compare -dir DIR                      crawl the site in DIR with colly, the bare loop and the crawler
//
// measure and compare run the crawler that -crawler names.
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
	"github.com/bloomfrontier/crawler/bench/peers"
	"github.com/bloomfrontier/crawler/bench/realhtml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs a subcommand, or a part of a comparison that this program started as a process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if is, err := contest.Part(ctx, args, stdin, stdout, peers.Loops); is {
		return err
	}
	if len(args) == 0 {
		return errors.New("want a command: measure, layout or compare")
	}
	switch args[0] {
	case "measure":
		return measure(ctx, args[1:], stdout, stderr)
	case "layout":
		return layout(args[1:])
	case "compare":
		return compare(ctx, args[1:], stdout)
	default:
		return fmt.Errorf("unknown command %q, want measure, layout or compare", args[0])
	}
}

func layout(args []string) error {
	flags := flag.NewFlagSet("bench layout", flag.ContinueOnError)
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

func compare(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("bench compare", flag.ContinueOnError)
	dir := flags.String("dir", "", "the folder of HTML files")
	crawler := flags.String("crawler", "bin/crawler", "the crawler binary")
	rounds := flags.Int("rounds", 3, "how often each crawls the site")
	packed := flags.Bool("gzip", false, "the server sends answers with gzip, as most do")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || *rounds < 1 {
		return errors.New("compare: want -dir and at least one round")
	}
	return peers.Compare(ctx, contest.Self, contest.Binary(*crawler), contest.Site{Folder: *dir, Packed: *packed}, *rounds, stdout)
}
