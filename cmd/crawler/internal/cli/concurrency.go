package cli

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"
)

// concurrency is the value of --concurrency: a number of hosts, or 0 for auto.
type concurrency int

const maxConcurrency = 100_000

func (c *concurrency) String() string {
	if *c == 0 {
		return "auto"
	}
	return strconv.Itoa(int(*c))
}

func (c *concurrency) Type() string { return "N" }

func (c *concurrency) Set(text string) error {
	if text == "auto" {
		*c = 0
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxConcurrency {
		return fmt.Errorf("want auto, or 1 to %d", maxConcurrency)
	}
	*c = concurrency(n)
	return nil
}

const (
	// otherDescriptors are for what is open beside connections to hosts.
	otherDescriptors = 512
	// autoConnections bounds the connections of --concurrency auto.
	autoConnections = 16384
)

// openable returns how many connections this process may have open at once. The
// Go runtime has raised the soft limit to the hard one.
func openable() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 512
	}
	return int(max(min(limit.Cur, 1<<20), 2*otherDescriptors)) - otherDescriptors
}

// maxConnections returns how many requests may be under way at once. What it
// leaves is for connections that are kept for their hosts' next requests.
func (o *options) maxConnections() int {
	half := openable() / 2
	if o.concurrency == 0 {
		return min(half, autoConnections)
	}
	return max(half, min(int(o.concurrency), openable()))
}

// keptConnections returns how many idle connections are kept: about one for each
// host that waits for its delay between two pages, for a new one costs more.
func (o *options) keptConnections() int {
	most := max(openable()-o.maxConnections(), 64)
	if o.concurrency == 0 {
		return most
	}
	return min(most, max(512, 4*int(o.concurrency)))
}

// overlaps reports whether two requests to one host may be under way at once.
func (o *options) overlaps() bool { return o.hostConcurrent > 1 || o.hostsOverlap }

// overlap reports whether a host of the config file may be asked twice at once.
func (l *layers) overlap() bool {
	return slices.ContainsFunc(l.hosts, func(h hostPattern) bool { return h.Concurrency > 1 })
}
