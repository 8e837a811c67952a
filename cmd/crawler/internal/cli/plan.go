package cli

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher/get"
)

// config returns the config of the crawl. It has the values that flags set directly, the
// location, and the values that config converts from the form of their flags.
func (p *plan) config() (crawl.Config, error) {
	c := p.options.crawl
	c.Dir, c.Redis, c.Postgres = p.Dir, p.Redis, p.Postgres
	c.SeedsText, c.Hosts = p.seedsGiven, append([]crawl.Host{}, p.hosts...)
	c.Fixed.Exact = p.options.exact.GetSlice()
	c.Fixed.StripParams, c.Fixed.KeepParams, c.Fixed.SortQuery = slices.Clone(p.form.Strip), slices.Clone(p.form.Keep), crawl.Off
	if p.form.Sort {
		c.Fixed.SortQuery = crawl.On
	}
	c.Memory, c.FullParse = int64(p.memory)/2, !p.fastLinks
	c.Fields = append([]crawl.FieldGroup{{Fields: p.fields}}, p.groups...)
	c.Requests.Headers = make(http.Header)
	for _, text := range p.headers {
		name, content, _ := strings.Cut(text, ":")
		c.Requests.Headers.Add(strings.TrimSpace(name), strings.TrimSpace(content))
	}
	var errs []error
	for _, text := range p.connectTo {
		rule, err := get.ParseConnectTo(text)
		errs = append(errs, err)
		c.Requests.ConnectTo = append(c.Requests.ConnectTo, rule)
	}
	for _, text := range p.allowNet {
		prefix, err := netip.ParsePrefix(text)
		errs = append(errs, err)
		c.Requests.AllowNet = append(c.Requests.AllowNet, prefix)
	}
	errs = append(errs, p.trust.configure(&c.Requests))
	return c, errors.Join(errs...)
}
