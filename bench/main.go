// Command bench measures what is of interest to us alone: whole crawls of synthetic webs, and
// our speed and cost beside those of colly and of a bare loop, which gives none of the crawler's
// guarantees. It also measures what `crawler bench` measures, in servers that it starts.
//
//	bench measure [-n N] [-fpr P] ... NAME...   make a report; names are fpr, speed, memory, crawl, broad and mix
//	bench compare [-copies N] [-rounds N]       crawl the documentation of Debian packages with all three
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
		return errors.New("want a command: measure or compare")
	}
	switch args[0] {
	case "measure":
		return measure(ctx, args[1:], stdout, stderr)
	case "compare":
		return compare(ctx, args[1:], stdout)
	default:
		return fmt.Errorf("unknown command %q, want measure or compare", args[0])
	}
}

// compare compares the crawlers on a site of installed documentation, first without and then with
// gzip, in which most servers send their answers.
func compare(ctx context.Context, args []string, stdout io.Writer) (err error) {
	flags := flag.NewFlagSet("bench compare", flag.ContinueOnError)
	copies := flags.Int("copies", 10, "how often the site has each documentation")
	crawler := flags.String("crawler", "bin/crawler", "the crawler binary")
	rounds := flags.Int("rounds", 3, "how often each crawls the site")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *copies < 1 || *rounds < 1 {
		return errors.New("compare: want at least one copy and one round")
	}
	trees, err := realhtml.Installed()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-site-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := realhtml.LayOut(dir, trees, *copies); err != nil {
		return err
	}
	for _, packed := range []bool{false, true} {
		fmt.Fprintf(stdout, "sent with gzip: %t\n", packed)
		err := peers.Compare(ctx, contest.Self, contest.Binary(*crawler), contest.Site{Folder: dir, Packed: packed}, *rounds, stdout)
		if err != nil {
			return err
		}
	}
	return nil
}
