package cli

import (
	"errors"
	"net/netip"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/trap"
	"github.com/bloomfrontier/crawler/internal/human"
)

// webOptions are the flags that deal with what the web is like: traps, bodies,
// addresses, archives (docs/web-policy.md).
type webOptions struct {
	// fixed when the crawl is created
	sitemaps   bool
	assets     bool
	maxHosts   limit
	maxURL     int
	maxRepeats int
	maxParams  int
	maxAhead   int
	allowPort  []string

	// free to change
	save          string
	saveRotate    human.Bytes // 0: package warc's default
	memory        human.Bytes
	headerTimeout time.Duration
	minRate       least
	proxy         string
	dns           string
	allowNet      []string
	trust         trustOptions
}

func (o *webOptions) trapFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.sitemaps, "sitemaps", false, "crawl the sitemaps that robots.txt names, or /sitemap.xml and /sitemap_index.xml, and the URLs in them")
	f.BoolVar(&o.assets, "assets", false, "crawl what pages embed too: images, styles, scripts, media; any content type unless --types says")
	o.maxHosts = 10_000
	f.Var(&o.maxHosts, "max-hosts-per-domain", "hosts of one registrable domain that are crawled, beside those of seeds; 0 no limit")
	f.IntVar(&o.maxURL, "max-url-bytes", trap.DefaultMaxURL, "refuse longer URLs; 0 no limit but 8192")
	f.IntVar(&o.maxRepeats, "max-path-repeats", trap.DefaultMaxRepeats, "refuse URLs in whose path one segment stands more often; 0 no limit")
	f.IntVar(&o.maxParams, "max-params", trap.DefaultMaxParams, "refuse URLs with more query parameters; 0 no limit")
	f.IntVar(&o.maxAhead, "max-years-ahead", trap.DefaultMaxAhead, "refuse URLs with dates later than that, or before 1900; -1 no limit")
}

func (o *webOptions) connectionFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.headerTimeout, "header-timeout", get.DefaultHeaderTimeout, "for the header of an answer")
	o.minRate = get.DefaultMinRate
	f.Var(&o.minRate, "min-rate", "bytes per second that a body must bring, over any 10 s; 0 no limit")
	f.StringVar(&o.proxy, "proxy", "", "connect through `URL`: http, https or socks5; names are looked up and checked here")
	f.StringVar(&o.dns, "dns", "", "ask the name server at `ADDR[:PORT]`")
	f.StringArrayVar(&o.allowNet, "allow-net", nil, "request addresses of `CIDR` too, private or not (repeatable)")
	f.StringSliceVar(&o.allowPort, "allow-port", nil, "request `PORT` too, although it is that of another service, such as 25 or 6379 (repeatable)")
	o.trust.addTo(f)
	o.memory = defaultMemory()
	f.Var(&o.memory, "memory", "for everything but the filter; half of it for bodies and documents")
	f.Var(&o.saveRotate, "save-rotate", "begin another file of kept answers beyond this size; for tests")
	_ = f.MarkHidden("save-rotate")
	f.Var(newChoice(&o.save, "none", "html", "all"), "save", "`WHAT` is kept in DIR/warc, as it was on the wire, in HTTP/1.1: none, html pages, or all answers")
}

// least is a flag for a least size; 0 is none.
type least human.Bytes

var _ pflag.Value = (*least)(nil)

// Type implements pflag.Value.
func (l *least) Type() string { return "SIZE" }

func (l *least) String() string {
	if *l == 0 {
		return "0"
	}
	return (*human.Bytes)(l).String()
}

// Set implements pflag.Value.
func (l *least) Set(s string) error {
	if s == "0" {
		*l = 0
		return nil
	}
	return (*human.Bytes)(l).Set(s)
}

// configure adds to what makes the requests. Faults of the rest of config are
// package get's to find.
func (o *webOptions) configure(config *get.Config) error {
	var errs []error
	for _, text := range o.allowNet {
		prefix, err := netip.ParsePrefix(text)
		errs = append(errs, err)
		config.AllowNet = append(config.AllowNet, prefix)
	}
	config.HeaderTimeout, config.MinRate = o.headerTimeout, orNone(int64(min(o.minRate, maxSize)), get.NoMinRate)
	config.Proxy, config.DNS = o.proxy, o.dns
	errs = append(errs, o.trust.configure(config))
	return errors.Join(errs...)
}

// orNone turns a zero that was asked for into the constant that asks for none.
func orNone[T comparable](v, none T) T {
	var zero T
	if v == zero {
		return none
	}
	return v
}

// withoutPassword is a proxy's URL as it may be shown.
func withoutPassword(proxy string) string {
	u, err := url.Parse(proxy)
	if err != nil {
		return "…"
	}
	return u.Redacted()
}
