package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/human"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// startProgress shows what a crawl does, once a second in a terminal's last
// line and every 30 s as a log line elsewhere, until stop is called.
func startProgress(ctx context.Context, ses *session, w io.Writer) (stop func()) {
	every, live := 30*time.Second, isTerminal(w)
	if live {
		every = time.Second
	}
	done, ended := make(chan struct{}), make(chan struct{})
	begun := time.Now()
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		last := fetcher.Progress{}
		for {
			select {
			case <-done:
				if live {
					w.(*screen).show("")
				}
				return
			case <-ticker.C:
			}
			stats, err := ses.store.Stats(context.WithoutCancel(ctx))
			if err != nil {
				continue // whoever works with the store says so
			}
			now := ses.crawl.Progress()
			rate := float64(now.Finished-last.Finished) / every.Seconds()
			last = now
			if live {
				w.(*screen).show(clock(time.Since(begun)) + " " + progressLine(stats, now, rate))
				continue
			}
			ses.log.Info("progress", slog.Uint64("pages", stats.Pages), slog.Float64("pages_per_s", rate),
				slog.Uint64("queued", stats.Queued), slog.Uint64("hosts", stats.Hosts), slog.Uint64("failed", stats.Failed),
				slog.Uint64("bytes", now.Bytes))
		}
	}()
	return func() { close(done); <-ended }
}

func clock(d time.Duration) string { return d.Truncate(time.Second).String() }

func progressLine(stats frontier.Stats, p fetcher.Progress, rate float64) string {
	return fmt.Sprintf("%s pages  %.1f/s  %s queued  %s hosts  %s failed  %s",
		human.Commas(stats.Pages), rate, human.Commas(stats.Queued), human.Commas(stats.Hosts), human.Commas(stats.Failed), humanize.IBytes(p.Bytes))
}

// print writes the summary of a run.
func (r *result) print(w io.Writer) {
	p := r.crawl.Progress()
	why := map[fetcher.End]string{
		fetcher.Empty: "nothing is left to fetch", fetcher.Limit: "--max-pages is reached",
		fetcher.Stopped: "stopped", endTime: "--max-time is over",
	}[r.end]
	fmt.Fprintf(w, "%s: %s\n", r.dir, why)
	fmt.Fprintf(w, "  this run   %s in %s (%.1f/s), %s, %s, %s for robots.txt\n",
		human.Plural(p.Finished, "page"), r.took.Round(100*time.Millisecond), float64(p.Finished)/max(r.took.Seconds(), 1e-3),
		humanize.IBytes(p.Bytes), human.Plural(p.Requests, "request"), human.Commas(p.Robots))
	if f := r.fed; f.added+f.known+f.refused > 0 {
		fmt.Fprintf(w, "  seeds      %s added, %s known, %s refused\n", human.Commas(f.added), human.Commas(f.known), human.Commas(f.refused))
	}
	printBooks(w, r.stats)
	fmt.Fprintf(w, "  records    %s\n", recordsIn(r.dir))
	if r.end != fetcher.Empty {
		if !r.fed.all && r.options.seeds == "-" {
			fmt.Fprintf(w, "the seeds on stdin were not read to their end: give them again\n")
		}
		fmt.Fprintf(w, "to go on: %s\n", r.resumeLine())
	}
}

// printBooks prints the accounts of a whole crawl (P6).
func printBooks(w io.Writer, st frontier.Stats) {
	fmt.Fprintf(w, "  found      %s = %s added + %s seen + %s refused%s\n", human.Commas(st.Found), human.Commas(st.Added), human.Commas(st.Seen),
		human.Commas(st.RefusedTotal()), breakdown(st.Refused))
	fmt.Fprintf(w, "  added      %s = %s queued + %s leased + %s done + %s failed\n", human.Commas(st.Added), human.Commas(st.Queued),
		human.Commas(st.Leased), human.Commas(st.Done), human.Commas(st.Failed))
	if len(st.Outcomes) > 0 {
		fmt.Fprintf(w, "  outcomes   %s\n", strings.Trim(breakdown(st.Outcomes), " ()"))
	}
	rate := fmt.Sprintf("%.2g", st.Filter.FPR)
	if st.Filter.FPR < leastRate {
		rate = "below 1e-12"
	}
	fmt.Fprintf(w, "  filter     %s of %s URLs, %s, false-positive rate now %s\n", human.Commas(st.Filter.Keys),
		human.Commas(st.Filter.Capacity), humanize.IBytes(st.Filter.Bytes), rate)
}

// breakdown lists counts by name, largest first.
func breakdown[K ~string](counts map[K]uint64) string {
	names := make([]K, 0, len(counts))
	for name, n := range counts {
		if n > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.SortFunc(names, func(a, b K) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %s", string(name), human.Commas(counts[name]))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
