package serve

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/name"
)

// Created is the answer to the creation of a crawl.
type Created struct {
	Name     string    `json:"name"`
	Created  time.Time `json:"created"`
	By       string    `json:"by" doc:"the name of the caller"`
	Settings []string  `json:"settings" doc:"NAME=VALUE"`
}

func createdOf(c *card) *Created { return &Created{c.Name, c.Created, c.By, c.Settings} }

// Summary is a crawl in the list of crawls.
type Summary struct {
	Created
	Run   bool   `json:"run" doc:"whether the crawl should run"`
	State State  `json:"state" enum:"waiting,running,finished,stopped,failed"`
	End   string `json:"end,omitempty" doc:"why the last run ended"`
	Fault string `json:"fault,omitempty" doc:"the error of the last run"`
}

// CrawlList is the list of crawls.
type CrawlList struct {
	Crawls []Summary `json:"crawls"`
}

// CrawlStatus is the state of a crawl.
type CrawlStatus struct {
	Summary
	SharedHosts []SharedHost  `json:"shared_hosts,omitempty" doc:"hosts from which other crawls fetch without regard for this one, at most 100; only with Redis"`
	Status      report.Status `json:"status"`
}

type createInput struct {
	Body struct {
		Name     string   `json:"name" pattern:"^[A-Za-z0-9._-]+$" minLength:"1" maxLength:"64"`
		Settings []string `json:"settings,omitempty" nullable:"false" maxItems:"200" doc:"NAME=VALUE, with the names of the flags of crawler crawl"`
		Run      *bool    `json:"run,omitempty" doc:"false creates a crawl that is stopped"`
	}
}

// routeCrawls adds the routes that create, list and delete crawls.
func (s *Server) routeCrawls() {
	tags := []string{"crawls"}
	handle(s, huma.Operation{
		OperationID: "list-crawls", Method: http.MethodGet, Path: "/v1/crawls", Tags: tags, Summary: "List the crawls",
	}, Read, plain, func(ctx context.Context, _ *struct{}) (*answer[CrawlList], error) {
		return body(CrawlList{s.fleet.summaries(ctx)}, nil)
	})
	handle(s, huma.Operation{
		OperationID: "create-crawl", Method: http.MethodPost, Path: "/v1/crawls", Tags: tags, Summary: "Create a crawl",
		DefaultStatus: http.StatusCreated, Description: "The crawl begins to run as soon as it has seeds and a place is free.",
	}, Admin, plain, s.createCrawl)
	handle(s, huma.Operation{
		OperationID: "get-crawl", Method: http.MethodGet, Path: "/v1/crawls/{crawl}", Tags: tags, Summary: "Get the state of a crawl",
	}, Read, plain, func(ctx context.Context, in *Named) (*answer[CrawlStatus], error) {
		m, h, err := s.fleet.open(ctx, in.Crawl)
		if err != nil {
			return nil, err
		}
		status, err := h.Status(ctx)
		for i := range status.Relays {
			status.Relays[i].Dir, status.Relays[i].Send = "", "" // paths of this machine
		}
		if err != nil {
			return nil, err
		}
		summary, err := s.fleet.summary(ctx, m)
		return body(CrawlStatus{summary, s.fleet.runner.sharedHosts(m.name), status}, err)
	})
	handle(s, huma.Operation{
		OperationID: "delete-crawl", Method: http.MethodDelete, Path: "/v1/crawls/{crawl}", Tags: tags,
		Summary: "Delete a crawl with its records", DefaultStatus: http.StatusNoContent,
	}, Admin, plain, func(ctx context.Context, in *Named) (*struct{}, error) {
		id := idText(requestID(ctx))
		if found, err := getNote(ctx, s.ledger, doneKey(id), new(done)); found || err != nil {
			return nil, err
		}
		return nil, s.fleet.delete(ctx, in.Crawl, id)
	})
}

// createCrawl creates a crawl. If the request was made before, the answer is the same.
func (s *Server) createCrawl(ctx context.Context, in *createInput) (*answer[Created], error) {
	id := idText(requestID(ctx))
	var before done
	found, err := getNote(ctx, s.ledger, doneKey(id), &before)
	if err != nil {
		return nil, err
	}
	made := before.Created
	if m, err := s.fleet.get(in.Body.Name); !found && err == nil {
		if c := m.copy(); c.Creation == id {
			made, found = createdOf(&c), true
		}
	}
	if found && (made == nil || made.Name != in.Body.Name || !slices.Equal(made.Settings, in.Body.Settings)) {
		return nil, newProblem("other-payload", "")
	}
	if !found {
		c := card{
			Name: in.Body.Name, Created: time.Now().UTC().Truncate(time.Second), By: callerOf(ctx).Name,
			Settings: append([]string{}, in.Body.Settings...), Run: in.Body.Run == nil || *in.Body.Run, Creation: id,
		}
		if !name.OfCrawl(c.Name) {
			return nil, newProblem("invalid", "the name consists of dots")
		}
		if err := s.fleet.checkNew(&c); err != nil {
			return nil, err
		}
		if _, err := s.fleet.add(ctx, c); err != nil {
			return nil, err
		}
		made = createdOf(&c)
	}
	out, err := body(*made, nil)
	out.Location = "/v1/crawls/" + made.Name
	return out, err
}
