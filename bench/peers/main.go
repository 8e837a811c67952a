// Command peers measures what others need for the work that crawler does: a
// bare loop without any promise, and colly.
//
//	peers -peer bare -dir DIR      crawl the site of HTML files in DIR, served by another process
//	peers -peer colly -url URL     crawl a site that is served already
//	peers serve -dir DIR           serve DIR on loopback and print the URL
//	peers layout -dir DIR          make DIR a site of the installed documentation of Debian packages
//	peers compare -dir DIR -crawler BIN   both and crawler itself on the site in DIR, with the ratio
//
// A crawl prints one line: peer, HTML pages, seconds, pages per second, the
// largest resident memory of the process in MiB and its processor time.
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
	"time"

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

func run(ctx context.Context, args []string, stdout io.Writer) error {
	verb := "crawl"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "crawl":
		return crawl(ctx, args, stdout)
	case "serve":
		return serve(ctx, args, stdout)
	case "layout":
		return layout(args)
	case "compare":
		return compare(ctx, args, stdout)
	}
	return fmt.Errorf("unknown command %q, want crawl, serve, layout or compare", verb)
}

// A peer crawls all pages of the site of start that it finds links to, with so
// many requests at once, and returns how many HTML pages it got.
type peer func(ctx context.Context, start string, workers int) (pages int, err error)

var peers = map[string]peer{"bare": bare, "colly": viaColly}

func crawl(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	name := flags.String("peer", "bare", "who crawls: bare or colly")
	dir := flags.String("dir", "", "crawl the HTML files in this folder, served by a process of its own")
	start := flags.String("url", "", "crawl the site of this URL")
	workers := flags.Int("workers", 16, "requests at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, ok := peers[*name]
	if !ok {
		return fmt.Errorf("-peer is %q, want bare or colly", *name)
	}
	if (*dir == "") == (*start == "") {
		return errors.New("want either -dir or -url")
	}
	if *workers < 1 {
		return fmt.Errorf("-workers is %d, want 1 or more", *workers)
	}
	if *dir != "" {
		url, stop, err := serveElsewhere(ctx, *dir, false)
		if err != nil {
			return err
		}
		defer stop()
		*start = url
	}
	began := time.Now()
	pages, err := chosen(ctx, *start, *workers)
	if err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return fmt.Errorf("getrusage: %w", err)
	}
	_, err = fmt.Fprintln(stdout, newMeasure(*name, pages, seconds, &usage))
	return err
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
