package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// seedBatch is how many seeds are offered at once.
const seedBatch = 500

// seedCounts are what became of seeds.
type seedCounts struct {
	added, known, refused uint64
	all                   bool // there are no more
}

// offerFunc offers seeds; with check their names are looked up first.
type offerFunc func(ctx context.Context, seeds []string, check bool) ([]seedReply, error)

// patient offers seeds again until the store can be asked, or ctx ends.
func (offer offerFunc) patient(stderr io.Writer) offerFunc {
	return func(ctx context.Context, seeds []string, check bool) (replies []seedReply, err error) {
		err = untilAvailable(ctx, stderr, "seeds wait", func() error {
			replies, err = offer(ctx, seeds, check)
			return err
		})
		return replies, err
	}
}

// untilAvailable calls again while the store cannot be asked, and says once that
// what waits: a Redis that is away for a minute is no end of a crawl that is
// still being fed.
func untilAvailable(ctx context.Context, stderr io.Writer, waits string, call func() error) error {
	const least, most = 100 * time.Millisecond, 10 * time.Second
	for wait := least; ; wait = min(2*wait, most) {
		err := call()
		if !errors.Is(err, frontier.ErrUnavailable) {
			return err
		}
		if wait == least {
			fmt.Fprintf(stderr, "%s: %v\n", waits, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// feed offers all seeds of r. Seeds that are refused are reported at once, and
// do not end it.
func feed(ctx context.Context, r *seedReader, offer offerFunc, stderr io.Writer) (seedCounts, error) {
	var counts seedCounts
	var batch []seedLine
	offer = offer.patient(stderr)
	credentials := dropCredentials{stderr: stderr}
	defer credentials.done()
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		texts := make([]string, len(batch))
		for i, line := range batch {
			texts[i] = line.text
		}
		replies, err := offer(ctx, texts, batch[0].source == "argument")
		if err != nil {
			return err
		}
		for i, reply := range replies {
			switch reply.Answer {
			case frontier.Added.String():
				counts.added++
			case frontier.Seen.String():
				counts.known++
			default:
				counts.refused++
				fmt.Fprintf(stderr, "seed refused: %s: %s\n", batch[i].source, reply.Message)
			}
		}
		batch = batch[:0]
		return nil
	}
	for {
		line, err := r.next()
		var fault lineError
		switch {
		case errors.Is(err, io.EOF):
			err = flush()
			counts.all = err == nil
			return counts, err
		case errors.As(err, &fault):
			counts.refused++
			fmt.Fprintf(stderr, "seed refused: %v\n", fault)
			continue
		case err != nil:
			return counts, errors.Join(err, flush())
		}
		if len(batch) > 0 && batch[0].source == "argument" != (line.source == "argument") {
			if err := flush(); err != nil {
				return counts, err
			}
		}
		if batch = append(batch, credentials.from(line)); len(batch) == seedBatch || r.waits() {
			if err := flush(); err != nil {
				return counts, err
			}
		}
	}
}

// waits reports whether the next line may take a while: then what was read is
// offered first. A pipe of seeds may stay open for hours.
func (r *seedReader) waits() bool {
	return r.name == "stdin" && len(r.args) == 0 && (r.lines == nil || r.lines.Buffered() == 0)
}

// lookUpTime bounds the look-up of a seed's name.
const lookUpTime = 5 * time.Second

// checkSeed refuses what is no URL, and a seed whose host has only addresses
// that are not requested. Names are looked up with look only: a file may have
// millions.
func (c *checked) checkSeed(ctx context.Context, raw string, look bool) (frontier.Reason, error) {
	url, err := seed.Parse(c.canon, raw)
	if err != nil {
		fault := errors.New(seed.Fault(raw, err, seed.WantSeed))
		switch {
		case errors.Is(err, canon.ErrScheme):
			return frontier.ReasonScheme, fault
		case errors.Is(err, canon.ErrTooLong):
			return frontier.ReasonTooLong, fault
		}
		return frontier.ReasonMalformed, fault
	}
	if err := c.client.CheckPort(url.Port()); err != nil {
		return frontier.ReasonPort, fmt.Errorf("%s: %w", url, err)
	}
	host := url.Host()
	_, notAddress := netip.ParseAddr(strings.Trim(host, "[]"))
	plain := notAddress == nil || host == "localhost" || strings.HasSuffix(host, ".localhost")
	if !plain && !look {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	var refused *get.AddressError
	if err := c.client.CheckHost(ctx, host); errors.As(err, &refused) {
		return frontier.Reason(frontier.Address), refused
	}
	return "", nil // no answer now may be one later
}

// refuseAll returns why none of seeds can be crawled; nothing if one can.
func (c *checked) refuseAll(ctx context.Context, seeds []string) (why []error) {
	for _, raw := range seeds {
		_, err := c.checkSeed(ctx, raw, true)
		if err == nil {
			return nil
		}
		why = append(why, fmt.Errorf("seed refused: argument: %w", err))
	}
	return why
}
