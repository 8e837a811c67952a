package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
)

// maxProbe is the longest time for which a report probes the filter.
const maxProbe = 10

type explainInput struct {
	Named
	URL string `query:"url" required:"true" minLength:"1" maxLength:"8192"`
}

type hostsInput struct {
	Named
	Host    string `query:"host" maxLength:"300" doc:"only the host with this key"`
	Trouble bool   `query:"trouble" doc:"only hosts that fail, are blocked, or have the lease of a dead worker"`
	Sort    string `query:"sort" enum:"queued,pages,errors,wait,oldest" default:"queued"`
	Limit   int    `query:"limit" minimum:"1" maximum:"10000" default:"20"`
}

type reportInput struct {
	Named
	Probe int `query:"probe_seconds" minimum:"0" maximum:"10" doc:"how long the filter is probed with random URLs, which keeps a core busy"`
}

// routeLooks adds the routes that look at a crawl.
func (s *Server) routeLooks() {
	tags := []string{"looks"}
	handle(s, huma.Operation{
		OperationID: "explain-url", Method: http.MethodGet, Path: "/v1/crawls/{crawl}/explain", Tags: tags,
		Summary: "Say why a URL was crawled or not",
	}, Read, plain, func(ctx context.Context, in *explainInput) (*answer[crawl.Explanation], error) {
		_, h, err := s.fleet.open(ctx, in.Crawl)
		if err != nil {
			return nil, err
		}
		e, err := h.Explain(ctx, in.URL)
		if err != nil {
			return nil, err
		}
		return body(*e, nil)
	})
	handle(s, huma.Operation{
		OperationID: "list-hosts", Method: http.MethodGet, Path: "/v1/crawls/{crawl}/hosts", Tags: tags, Summary: "List hosts",
	}, Read, plain, func(ctx context.Context, in *hostsInput) (*answer[report.Hosts], error) {
		_, h, err := s.fleet.open(ctx, in.Crawl)
		if err != nil {
			return nil, err
		}
		hosts, err := h.Hosts(ctx, crawl.HostQuery{Host: in.Host, Trouble: in.Trouble, Sort: in.Sort, Most: in.Limit})
		return body(hosts, err)
	})
	handle(s, huma.Operation{
		OperationID: "get-report", Method: http.MethodGet, Path: "/v1/crawls/{crawl}/report", Tags: tags, Summary: "Get the report",
	}, Read, plain, func(ctx context.Context, in *reportInput) (*answer[report.Report], error) {
		_, h, err := s.fleet.open(ctx, in.Crawl)
		if err != nil {
			return nil, err
		}
		r, err := h.Report(ctx, time.Duration(min(in.Probe, maxProbe))*time.Second)
		if err != nil {
			return nil, err
		}
		r.Crawl, r.Records, r.Answers, r.Resume, r.ResumeNotes = in.Crawl, "", "", "", nil // paths of this machine
		for i := range r.Relays {
			r.Relays[i].Dir, r.Relays[i].Send = "", ""
		}
		return body(*r, nil)
	})
}
