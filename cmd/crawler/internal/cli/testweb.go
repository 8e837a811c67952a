package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// testwebFlags are the flags of `crawler testweb`.
type testwebFlags struct {
	web       testweb.Config // Hardships, MeanBytes and Log are not set
	hardships string
	mix       string
	bytes     human.Bytes
	ca        string
	listen    string
	log       string
	expected  string
	judge     string
	records   string
	delay     time.Duration
}

// newTestweb returns the command that serves a synthetic web, or judges a crawl of it.
func newTestweb(s streams) *cobra.Command {
	f := new(testwebFlags)
	cmd := &cobra.Command{
		Use:   "testweb",
		Short: "Serve a synthetic web that knows what a correct crawl finds, or judge a crawl of it",
		Long:  testwebLong(),
		Example: `  crawler testweb --pages 10000 --hosts 100 --hardships all --log requests.jsonl
  crawler testweb --pages 10000 --hosts 100 --hardships all --judge requests.jsonl --records web.crawl/pages.jsonl --delay 1s`,
		Args: cobra.NoArgs,
	}
	f.addTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.completeMix(cmd.Flags())
		return f.run(cmd.Context(), s)
	}
	return cmd
}

func (f *testwebFlags) addTo(flags *pflag.FlagSet) {
	const most, words = 1 << 31, "a whole number from 1 to 2147483648"
	flags.SortFlags = false
	flags.Uint64Var(&f.web.Seed, "seed", 1, "which web: the same flags make the same web")
	restrict.Number(flags, &f.web.Hosts, "hosts", 20, "virtual hosts", 1, most, words)
	restrict.Number(flags, &f.web.Pages, "pages", 1000, "pages on all hosts together", 1, most, words)
	flags.StringVar(&f.hardships, "hardships", "none", "`LIST` of hardships of the web, as in 5xx,robots or all or all,-dead")
	restrict.Check(flags, "hardships", parsed(testweb.ParseHardships))
	flags.StringVar(&f.mix, "mix", "", "`NAME` of a make-up instead of --hardships, --links, --page-bytes: web, the sizes, links, failures and so on of a real crawl, with --tls, --latency 2.15s and many pages unless they are given")
	restrict.Check(flags, "mix", func(text string) error {
		if text != "" && text != string(testweb.MixWeb) {
			return errors.New("want web")
		}
		return nil
	})
	flags.Float64Var(&f.web.LargestShare, "largest-share", 0.02, "part of the pages that the largest host has")
	restrict.Flag(flags, "largest-share", "a number of more than 0, and 1 at most", func() bool { return f.web.LargestShare > 0 && f.web.LargestShare <= 1 })
	f.bytes = 14 << 10
	flags.Var(&f.bytes, "page-bytes", "mean `SIZE` of a page")
	restrict.Number(flags, &f.web.MeanLinks, "links", 20, "mean number of links of a page beside those of the tree", 1, most, words)
	restrict.Number(flags, &f.web.Latency, "latency", 0, "mean `TIME` until hosts answer; each host has its own, drawn from a log-normal distribution", 0, forever, timeOrZero)
	restrict.Number(flags, &f.web.LatencySpread, "latency-spread", 0.8, "with --latency: standard deviation of its logarithm; 0 the same for all hosts",
		0, math.MaxFloat64, "a number of 0 or more")
	flags.BoolVar(&f.web.TLS, "tls", false, "serve https alone, with certificates of an authority of its own")
	flags.StringVar(&f.ca, "ca", "testweb-ca.pem", "with --tls: write the authority's certificate to `FILE`, for crawlers to trust")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:0", "`ADDR:PORT`, port 0 for a free one")
	restrict.Check(flags, "listen", func(text string) error {
		_, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return errors.New("want ADDR:PORT, such as 127.0.0.1:8080, or 127.0.0.1:0 for a free port")
		}
		return nil
	})
	flags.StringVar(&f.log, "log", "", "write a line of JSON for each request to `FILE`")
	flags.StringVar(&f.expected, "expected", "", "write what a correct crawl records to `FILE`, and end")
	flags.StringVar(&f.judge, "judge", "", "judge the crawl that made this request `LOG`, and end")
	flags.StringVar(&f.records, "records", "", "compare a crawl's pages.jsonl, this `FILE`, with what is expected, and end")
	restrict.Number(flags, &f.delay, "delay", time.Second, "with --judge: the delay between two requests to one host that the crawler promised", 0, forever, timeOrZero)
}

// completeMix sets what --mix sets, unless it is given.
func (f *testwebFlags) completeMix(flags *pflag.FlagSet) {
	if f.mix == "" {
		return
	}
	f.web.Mix = testweb.Mix(f.mix)
	for name, set := range map[string]func(){
		"tls": func() { f.web.TLS = true }, "pages": func() { f.web.Pages = 0 }, "latency": func() { f.web.Latency = testweb.MixLatency },
		"latency-spread": func() { f.web.LatencySpread = testweb.MixLatencySpread },
	} {
		if !flags.Changed(name) {
			set()
		}
	}
}

func testwebLong() string {
	var b strings.Builder
	b.WriteString("Serve a synthetic web that knows what a correct crawl finds, or judge any crawler's\ncrawl of it.\n\nHardships:\n")
	testweb.DescribeHardships(func(name, doc string) { fmt.Fprintf(&b, "  %-16s %s\n", name, doc) })
	return strings.TrimSuffix(b.String(), "\n")
}

func (f *testwebFlags) run(ctx context.Context, s streams) error {
	hard, err := testweb.ParseHardships(f.hardships)
	if err != nil {
		return usage(err)
	}
	if f.web.Pages < f.web.Hosts && f.web.Pages > 0 {
		return usage(fmt.Errorf("--pages is %d, want at least the %d of --hosts", f.web.Pages, f.web.Hosts))
	}
	if hard&testweb.Addresses != 0 {
		return usage(errors.New("--hardships has addresses, which need a name server and listeners that only our own tests start: leave them out, as in everything,-addresses"))
	}
	cfg := f.web
	cfg.Hardships, cfg.MeanBytes = hard, int(f.bytes)
	if f.expected == "" && f.judge == "" && f.records == "" {
		return f.serve(ctx, cfg, s)
	}
	if f.log != "" {
		return usage(errors.New("--log is for a web that is served, and --expected, --judge and --records serve none: leave --log out"))
	}
	web, err := testweb.New(cfg)
	if err != nil {
		return usage(err)
	}
	if f.expected != "" {
		return writeExpected(web, f.expected)
	}
	return f.judgeCrawl(web, s.out)
}

// serve serves a web until ctx ends.
func (f *testwebFlags) serve(ctx context.Context, cfg testweb.Config, s streams) error {
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	var log *os.File
	if f.log != "" {
		if log, err = os.OpenFile(f.log, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
			return fmt.Errorf("--log: %w", err)
		}
		defer log.Close()
		cfg.Log = log
	}
	web, err := testweb.New(cfg)
	if err != nil {
		return usage(err)
	}
	if f.web.TLS {
		if err := os.WriteFile(f.ca, web.CACert(), 0o644); err != nil {
			return fmt.Errorf("--ca: %w", err)
		}
	}
	if log != nil { // emptied only now, because an earlier step might have failed
		if err := log.Truncate(0); err != nil {
			return fmt.Errorf("--log: %w", err)
		}
	}
	fmt.Fprintf(s.out, "%d pages on %d hosts at %s (Ctrl-C ends it). Crawl it with:\n%s\n", web.Pages(), f.web.Hosts, listener.Addr(),
		f.crawlLine(web, cfg.Hardships, listener.Addr().String()))
	if err := web.Serve(ctx, listener); err != nil {
		return err
	}
	traffic := web.Traffic()
	fmt.Fprintf(s.out, "%s on %s\n", human.Plural(traffic.Requests, "request"), human.Plural(traffic.Connections, "connection"))
	return nil
}

// crawlLine returns the command that crawls web.
func (f *testwebFlags) crawlLine(web *testweb.Web, hard testweb.Hardships, addr string) string {
	more := ""
	if hard&testweb.Sitemaps != 0 {
		more = " --sitemaps"
	}
	if hard&testweb.Feeds != 0 {
		more += " --feeds"
	}
	if f.web.TLS {
		more += " --ca " + shellQuote(f.ca)
	}
	return fmt.Sprintf("  %s crawl --dir testweb.crawl --scope any --delay 100ms --domain-rate 0%s --connect-to '*=%s' %s",
		program(), more, addr, strings.Join(web.Seeds(), " "))
}

func writeExpected(web *testweb.Web, name string) error {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(web.WriteExpected(out), out.Close())
}

// judgeCrawl compares a crawl with a correct one and prints the result. A fault of the
// crawl is an error with exit code 1.
func (f *testwebFlags) judgeCrawl(web *testweb.Web, out io.Writer) error {
	var faults []error
	if f.judge != "" {
		faults = append(faults, f.judgeLog(web, out))
	}
	if f.records != "" {
		r, err := reading(f.records, web.Compare)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "records:  %d, expected %d: %d missing, %d unexpected, %d twice\n", r.Records, r.Expected, r.Missing, r.Unexpected, r.Duplicates)
		faults = append(faults, r.Err())
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	fmt.Fprintln(out, "exact")
	return nil
}

// judgeLog judges the request log. A fault of the crawl is an error.
//
// On a busy machine the server might read a request late. Then the time to the next
// request looks too short. In this case judgeLog judges the log again, and allows for the
// lag that the log and the records show.
func (f *testwebFlags) judgeLog(web *testweb.Web, out io.Writer) error {
	log, err := reading(f.judge, testweb.ReadLog)
	if err != nil {
		return err
	}
	if len(log) == 0 {
		return fmt.Errorf("%s has no requests: is it the log of the crawl?", f.judge)
	}
	promised := testweb.Manners{Delay: f.delay}
	v := web.Judge(log, promised)
	closest, early := v.Closest, v.TooEarly+v.Impatient
	var lag testweb.Lag
	if early > 0 {
		var started map[string]time.Time
		if f.records != "" {
			if started, err = reading(f.records, testweb.ReadStarts); err != nil {
				return err
			}
		}
		lag = testweb.LagOf(log, started)
		promised.Lag = lag.Most()
		v = web.Judge(log, promised)
	}
	fmt.Fprintf(out, "requests: %d to %d hosts, %d too early, %d disallowed, %d unknown, %d again after a crash\n",
		v.Requests, v.Hosts, v.TooEarly, v.Disallowed, v.Unknown, v.Refetched)
	if closest != nil {
		fmt.Fprintf(out, "closest:  %v\n", closest)
	}
	if early > 0 {
		fmt.Fprintf(out, "lag:      %v\n          %d requests looked too early, %d do with that allowed for\n", lag, early, v.TooEarly+v.Impatient)
		if f.records == "" {
			fmt.Fprintln(out, "          --records FILE tells more: when the crawler itself started its requests")
		}
	}
	return errors.Join(v.Err(), lag.Err())
}

// reading opens a file and returns what the function read returns for it.
func reading[T any](name string, read func(io.Reader) (T, error)) (T, error) {
	in, err := os.Open(name)
	if err != nil {
		return *new(T), err
	}
	defer in.Close()
	return read(in)
}
