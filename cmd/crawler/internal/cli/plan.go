package cli

import (
	"errors"
	"net/http"
	"strings"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// config returns what the options say of a crawl.
func (p *plan) config() (crawl.Config, error) {
	c := crawl.Config{
		Dir: p.Dir, Redis: p.Redis, Postgres: p.Postgres, SeedsText: p.seedsGiven, Fixed: p.fixed(),
		Hosts: append([]crawl.Host{}, p.hosts...), Agent: p.userAgent, Contact: p.contact,
		Concurrency: int(p.concurrency), MaxPages: uint64(p.maxPages), MaxTime: p.maxTime, MaxQueued: uint64(p.maxQueued),
		Rate: p.rate, Retries: orNone(p.retries, fetcher.NoRetries), Grace: orNone(p.grace, fetcher.NoGrace),
		Backoff: p.backoff, BackoffMax: p.backoffMax, DeadAfter: orNone(p.deadAfter, politeness.NeverDead),
		Memory: int64(min(p.memory, maxSize)) / 2, FullParse: !p.fastLinks, Worker: p.worker, Wait: p.redisWait,
		Records: crawl.Records{RotateBytes: int64(p.rotate), Compress: p.compress, Save: p.save},
		Tests:   crawl.Tests{CheckpointAdds: p.checkpoint, LeaseTTL: p.leaseTime, SaveRotateBytes: int64(min(p.saveRotate, maxSize))},
	}
	c.Requests = get.Config{
		Headers: make(http.Header), Timeout: p.timeout, MaxBodyBytes: int64(p.maxBody), Types: p.types, AllowPrivate: p.private,
	}
	var errs []error
	if err := p.configure(&c.Requests); err != nil {
		errs = append(errs, err)
	}
	for _, text := range p.connectTo {
		rule, err := get.ParseConnectTo(text)
		errs = append(errs, err)
		c.Requests.ConnectTo = append(c.Requests.ConnectTo, rule)
	}
	for _, text := range p.headers {
		name, content, _ := strings.Cut(text, ":")
		c.Requests.Headers.Add(strings.TrimSpace(name), strings.TrimSpace(content))
	}
	return c, errors.Join(errs...)
}

// fixed returns the fixed settings. Flags have a value whether they are given or
// not: that of an existing crawl, or the default.
func (p *plan) fixed() crawl.Fixed {
	some := func(list []string) []string { return append([]string{}, list...) }
	return crawl.Fixed{
		Scope: p.scope, Include: some(p.include), Exclude: some(p.exclude),
		MaxDepth: orNone(p.maxDepth, crawl.SeedsOnly), MaxPerHost: orNone(int(p.maxPerHost), crawl.NoLimit),
		MaxHostsPerDomain: orNone(int(p.maxHosts), crawl.NoLimit), MaxURLBytes: orNone(p.maxURL, crawl.NoLimit),
		MaxPathRepeats: orNone(p.maxRepeats, crawl.NoLimit), MaxParams: orNone(p.maxParams, crawl.NoLimit),
		MaxYearsAhead: orNone(p.maxAhead, crawl.ThisYear), AllowPorts: some(p.allowPort),
		Sitemaps: onOff(p.sitemaps), Assets: onOff(p.assets),
		HostKey: p.hostKey, Delay: orNone(p.delay, crawl.NoDelay), MaxCrawlDelay: orNone(p.maxCrawlDelay, crawl.NoDelay),
		LatencyFactor: orNone(p.latencyFactor, -1), HostConcurrency: p.hostConcurrent, Robots: p.robots,
		FilterURLs: uint64(p.urls), FPR: float64(p.fpr), Growth: onOff(bool(p.growth)),
		StripParams: some(p.form.Strip), KeepParams: some(p.form.Keep), SortQuery: onOff(p.form.Sort),
		Exact: p.options.exact.GetSlice(), Windows: some(p.window), Sink: p.sink, Partitions: p.partitions,
	}
}

func onOff(on bool) crawl.Switch {
	if on {
		return crawl.On
	}
	return crawl.Off
}
