package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// Exit codes, which `crawler help exit-codes` describes.
const (
	exitOK        = 0   // the frontier is empty, or a limit was reached
	exitFailed    = 1   // an error ended the command, or the crawl broke a guarantee
	exitUsage     = 2   // a fault of the command line or the config file
	exitNothing   = 3   // no seed could be fetched
	exitUnreached = 4   // no seed answered
	exitNotKept   = 6   // the question needs data that was not kept, or not of all pages
	exitHostLimit = 7   // nothing is left to fetch, but --max-per-host refused URLs
	exitDenied    = 8   // the server refused every seed, or robots.txt forbids it
	exitBlocked   = 9   // only hosts that a wall blocks have URLs left
	exitInt       = 130 // interrupted, state saved
	exitTerm      = 143 // terminated, state saved
)

const exitCodesText = `Exit codes:
  0    the frontier is empty, or a limit was reached
  1    could not go on, or a promise is broken, or events of a dead worker are not delivered
  2    command line or config: every fault is listed
  3    no seed could be fetched: all were refused
  4    no seed could be reached: no name, no connection, no valid certificate, or no answer in time
  6    links, output, diff: the crawl has not kept the data, or not of all pages; the rest is printed
  7    URLs were refused because their hosts have reached --max-per-host; the rest was crawled
  8    no seed may be crawled: the servers refused them (401, 403, 429, 451), or robots.txt forbids them
  9    only hosts have URLs left that a wall blocks (a challenge, a payment, a signature); they stay queued
  130  interrupted (Ctrl-C, crawler stop); the state is saved and the line that resumes is printed (not with --quiet)
  143  terminated (SIGTERM); the same`

// exitError is an error with its exit code. If err is nil, nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error { return &exitError{exitUsage, err} }

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// signalCode returns the exit code after a signal has ended ctx.
func signalCode(ctx context.Context) int {
	if cause := context.Cause(ctx); cause != nil && strings.HasPrefix(cause.Error(), syscall.SIGTERM.String()) {
		return exitTerm
	}
	return exitInt
}

// packagePrefix matches the name of a package at the beginning of an error, or of its cause.
var packagePrefix = regexp.MustCompile(`(^|: )(?:(?:crawl|fetcher|record|frontier|localstore|redisstore|redisbits|membits|pgstore|canon|durable): )+`)

// plainWords returns a line of an error for people: without the names of packages, and with each part
// once where an error and its cause begin with the same words.
func plainWords(line string) string {
	parts := strings.Split(packagePrefix.ReplaceAllString(line, "$1"), ": ")
	return strings.Join(slices.Compact(parts), ": ")
}
