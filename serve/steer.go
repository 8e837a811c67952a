package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/name"
	"github.com/bloomfrontier/crawler/serve/idempotency"
)

// maxSeeds is the number of seeds of a request, and of a chunk of an upload.
const maxSeeds = 1000

// Seeds is the answer to seeds.
type Seeds struct {
	Counts
	Answers []crawl.SeedAnswer `json:"answers" doc:"to each seed, in the same order"`
}

// Counts counts seeds by their answers.
type Counts struct {
	Added   uint64 `json:"added"`
	Seen    uint64 `json:"seen"`
	Refused uint64 `json:"refused"`
}

func (c *Counts) add(answers []crawl.SeedAnswer) {
	var sum crawl.SeedCounts
	for _, a := range answers {
		sum.Count(a)
	}
	c.Added, c.Seen, c.Refused = c.Added+sum.Added, c.Seen+sum.Seen, c.Refused+sum.Refused
}

type seedsInput struct {
	Named
	Body struct {
		Seeds []string `json:"seeds" nullable:"false" minItems:"1" maxItems:"1000"`
	}
}

// RunState is the answer to pause, resume and stop.
type RunState struct {
	Run    bool `json:"run" doc:"whether the crawl should run"`
	Paused bool `json:"paused"`
}

// PolicySettings are the settings of a crawl.
type PolicySettings struct {
	Version  uint64            `json:"version" doc:"of the policy; 0 if it was never changed"`
	Settings map[string]string `json:"settings"`
}

type changeInput struct {
	Named
	Body struct {
		Settings []string `json:"settings" nullable:"false" minItems:"1" maxItems:"200" doc:"NAME=VALUE, NAME+=VALUE, NAME-=VALUE or hosts:PATTERN=VALUE"`
		From     *uint64  `json:"from,omitempty" doc:"refuse the change unless this is the newest version"`
		Why      string   `json:"why,omitempty" maxLength:"500" doc:"for the history"`
	}
}

// Change is the answer to a change of the policy.
type Change struct {
	Version *crawl.PolicyVersion `json:"version,omitempty" doc:"the newest version; missing if the policy was never changed"`
	Same    bool                 `json:"same,omitempty" doc:"the policy has these values already"`
}

type dropInput struct {
	Named
	Body struct {
		Rule string `json:"rule" minLength:"1" maxLength:"1000" doc:"such as host=*.example.org class=bulk depth=5.. match=/calendar/"`
		Why  string `json:"why,omitempty" maxLength:"500" doc:"for the history"`
	}
}

type retryInput struct {
	Named
	Body struct {
		Host    string           `json:"host,omitempty" maxLength:"300" doc:"host key; empty means all"`
		Outcome frontier.Outcome `json:"outcome,omitempty" maxLength:"50" doc:"as in the records; empty means all failures"`
		Seconds uint64           `json:"within_seconds,omitempty" maximum:"1000000000" doc:"only URLs that failed so recently; 0 means all"`
	}
}

// routeSteering adds the routes that change a crawl.
func (s *Server) routeSteering() {
	seeds, run, policy := []string{"seeds"}, []string{"run"}, []string{"policy"}
	handle(s, huma.Operation{
		OperationID: "add-seeds", Method: http.MethodPost, Path: "/v1/crawls/{crawl}/seeds", Tags: seeds, Summary: "Add seeds",
		Description: "The answer to each seed is added, seen or refused.",
	}, Write, plain, func(ctx context.Context, in *seedsInput) (*answer[Seeds], error) {
		m, h, err := s.fleet.open(ctx, in.Crawl)
		if err != nil {
			return nil, err
		}
		answers, err := offer(ctx, h, requestID(ctx), 0, in.Body.Seeds, true)
		if err != nil {
			return nil, err
		}
		crash.Point("serve seeds added")
		s.fleet.runner.wake(m)
		out := Seeds{Answers: answers}
		out.add(answers)
		return body(out, nil)
	})
	for _, op := range []struct{ id, summary string }{
		{"pause", "Start no more requests"},
		{"resume", "End a pause, and run a crawl that was stopped"},
		{"stop", "Stop the run; requests under way finish"},
	} {
		handle(s, huma.Operation{
			OperationID: op.id + "-crawl", Method: http.MethodPost, Path: "/v1/crawls/{crawl}/" + op.id, Tags: run, Summary: op.summary,
		}, Write, plain, func(ctx context.Context, in *Named) (*answer[RunState], error) { return s.steer(ctx, in.Crawl, op.id) })
	}
	handle(s, huma.Operation{
		OperationID: "get-settings", Method: http.MethodGet, Path: "/v1/crawls/{crawl}/settings", Tags: policy, Summary: "Get the settings",
	}, Read, plain, s.getSettings)
	handle(s, huma.Operation{
		OperationID: "change-settings", Method: http.MethodPatch, Path: "/v1/crawls/{crawl}/settings", Tags: policy, Summary: "Change the policy",
		Description: "A running crawl obeys the new version at once.",
	}, Write, plain, func(ctx context.Context, in *changeInput) (*answer[Change], error) {
		if err := checkTexts(in.Body.Settings); err != nil {
			return nil, err
		}
		return s.change(ctx, in.Crawl, crawl.Change{Values: in.Body.Settings, From: in.Body.From, Why: in.Body.Why})
	})
	handle(s, huma.Operation{
		OperationID: "get-history", Method: http.MethodGet, Path: "/v1/crawls/{crawl}/settings/history", Tags: policy,
		Summary: "List the versions of the policy",
	}, Read, plain, func(ctx context.Context, in *Named) (*answer[history], error) {
		_, h, err := s.fleet.open(ctx, in.Crawl)
		if err != nil {
			return nil, err
		}
		versions, err := h.History(ctx)
		return body(history{append([]crawl.PolicyVersion{}, versions...)}, err)
	})
	handle(s, huma.Operation{
		OperationID: "drop-urls", Method: http.MethodPost, Path: "/v1/crawls/{crawl}/drops", Tags: policy, Summary: "Drop URLs, now and later",
		Description: "The rule is a new version of the policy. URLs that wait are dropped soon if the crawl runs, and otherwise when it is their turn.",
	}, Write, plain, s.drop)
	handle(s, huma.Operation{
		OperationID: "retry-urls", Method: http.MethodPost, Path: "/v1/crawls/{crawl}/retries", Tags: seeds, Summary: "Queue failed URLs again",
	}, Write, plain, s.retry)
	handle(s, huma.Operation{
		OperationID: "discard-letters", Method: http.MethodPost, Path: "/v1/crawls/{crawl}/relays/{relay}/discards", Tags: []string{"relays"},
		Summary: "Discard dead letters of a relay", Description: "A repeat finds none of them any more, and has the same answer.",
	}, Write, plain, func(ctx context.Context, in *lettersInput) (*answer[Letters], error) {
		return s.letters(ctx, in, crawl.Outbox.Discard)
	})
	handle(s, huma.Operation{
		OperationID: "resend-letters", Method: http.MethodPost, Path: "/v1/crawls/{crawl}/relays/{relay}/resends", Tags: []string{"relays"},
		Summary: "Send dead letters of a relay again", Description: "The relay sends them within seconds if it runs, and otherwise when it runs next.",
	}, Write, plain, func(ctx context.Context, in *lettersInput) (*answer[Letters], error) {
		return s.letters(ctx, in, crawl.Outbox.Resend)
	})
}

type lettersInput struct {
	Named
	Relay string `path:"relay" pattern:"^[A-Za-z0-9._-]+$" maxLength:"64" doc:"name of the relay"`
	Body  struct {
		IDs []string `json:"ids" nullable:"false" minItems:"1" maxItems:"1000" doc:"ids of events"`
	}
}

// Letters is the answer to discards and resends.
type Letters struct {
	Letters int `json:"letters" doc:"how many dead letters were discarded, or will be sent again"`
}

// letters changes dead letters of a relay.
func (s *Server) letters(
	ctx context.Context, in *lettersInput, change func(crawl.Outbox, context.Context, string, ...string) (int, error),
) (*answer[Letters], error) {
	box, release, err := s.outbox(ctx, in.Crawl)
	if err != nil {
		return nil, err
	}
	defer release()
	n, err := change(box, ctx, in.Relay, in.Body.IDs...)
	return body(Letters{n}, err)
}

type history struct {
	Versions []crawl.PolicyVersion `json:"versions" doc:"oldest first"`
}

// mostLookedUp is the number of seeds up to which their hosts are looked up before they are added. The addresses of all
// others are checked when they are requested.
const mostLookedUp = 20

// offer adds the seeds of a chunk to a crawl, once for its ID and number. No chunk follows the last one.
func offer(ctx context.Context, h *crawl.Handle, id idempotency.ID, chunk int, seeds []string, last bool) ([]crawl.SeedAnswer, error) {
	submitted, err := h.Submit(ctx, crawl.Submission{
		ID: id, Chunk: chunk, Seeds: seeds, Last: last, Check: len(seeds) <= mostLookedUp, TTL: 2 * keyTTL, Key: keyOf(ctx),
	})
	return submitted.Answers, err
}

// handover is how long a change is repeated while processes or runs hand a crawl over to each other.
const handover = 10 * time.Second

// again calls a function that can be repeated until its call of a crawl is not broken by the end of a run.
func again[A any](ctx context.Context, do func() (A, error)) (a A, err error) {
	for begun := time.Now(); ; {
		a, err = do()
		if _, broken := errors.AsType[*control.BrokenCallError](err); !broken || time.Since(begun) > handover {
			return a, err
		}
		select {
		case <-ctx.Done():
			return a, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// steer pauses, resumes or stops a crawl.
func (s *Server) steer(ctx context.Context, name, how string) (*answer[RunState], error) {
	m, h, err := s.fleet.open(ctx, name)
	if err != nil {
		return nil, err
	}
	var out RunState
	switch how {
	case "pause":
		_, err = again(ctx, func() (bool, error) { return h.Pause(ctx) })
		out = RunState{m.copy().Run, true}
	case "resume":
		if _, err = again(ctx, func() (bool, error) { return h.Resume(ctx) }); err == nil {
			err = s.fleet.should(ctx, m, true)
		}
		out = RunState{true, false}
	default:
		err = s.fleet.should(ctx, m, false)
		var status, failed = h.Status(ctx)
		if err == nil {
			err = failed
		}
		out = RunState{false, status.Stats.Paused}
	}
	return body(out, err)
}

// getSettings returns the settings that a caller may see.
func (s *Server) getSettings(ctx context.Context, in *Named) (*answer[PolicySettings], error) {
	m, h, err := s.fleet.open(ctx, in.Crawl)
	if err != nil {
		return nil, err
	}
	versions, err := h.History(ctx)
	if err != nil {
		return nil, err
	}
	c := m.copy()
	cfg, _, err := s.fleet.config(&c, false)
	if err != nil {
		return nil, err
	}
	plan, err := crawl.Prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	out := PolicySettings{Settings: make(map[string]string)}
	if len(versions) > 0 {
		out.Version = versions[len(versions)-1].Number
	}
	for _, row := range settings.Rows() {
		if open(row) {
			out.Settings[row.Name] = row.Value(&plan.Settings).Stored()
		}
	}
	found, err := body(out, nil)
	found.ETag = fmt.Sprintf(`"%d"`, out.Version)
	return found, err
}

// change changes the policy. If the history has a version of this request, it is the answer.
func (s *Server) change(ctx context.Context, crawlName string, c crawl.Change) (*answer[Change], error) {
	_, h, err := s.fleet.open(ctx, crawlName)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(c.Why, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, newProblem("invalid", "why has a control character")
	}
	c.Who = author(ctx)
	return again(ctx, func() (*answer[Change], error) { return changeOnce(ctx, h, c) })
}

// changeOnce changes the policy, unless its history has a version of c.Who.
func changeOnce(ctx context.Context, h *crawl.Handle, c crawl.Change) (*answer[Change], error) {
	versions, err := h.History(ctx)
	if err != nil {
		return nil, err
	}
	for i := range versions {
		if versions[i].Who == c.Who {
			return changed(Change{Version: &versions[i]}), nil
		}
	}
	made, err := h.Change(ctx, c)
	if err != nil {
		return nil, err
	}
	crash.Point("serve policy changed")
	if made.Version != nil {
		made.Version.Values = nil // as in the history
	}
	return changed(Change{made.Version, made.Same}), nil
}

func changed(c Change) *answer[Change] {
	out := &answer[Change]{Body: c}
	if c.Version != nil {
		out.ETag = fmt.Sprintf(`"%d"`, c.Version.Number)
	}
	return out
}

// drop makes a rule that drops URLs. If the crawl runs, it also drops those that wait, in the background.
func (s *Server) drop(ctx context.Context, in *dropInput) (*answer[Change], error) {
	if _, err := policy.ParseTarget(in.Body.Rule); err != nil {
		return nil, newProblem("invalid", "rule: "+err.Error())
	}
	out, err := s.change(ctx, in.Crawl, crawl.Change{Values: []string{"drop+=" + in.Body.Rule}, Why: in.Body.Why})
	if err != nil {
		return nil, err
	}
	m, h, err := s.fleet.open(ctx, in.Crawl)
	if err == nil {
		s.fleet.runner.drop(m, h, in.Body.Rule)
	}
	return out, err
}

// retry queues failed URLs again.
func (s *Server) retry(ctx context.Context, in *retryInput) (*answer[crawl.Retried], error) {
	if !name.Valid(string(in.Body.Outcome)) && in.Body.Outcome != "" {
		return nil, newProblem("invalid", "outcome is not the name of one")
	}
	m, h, err := s.fleet.open(ctx, in.Crawl)
	if err != nil {
		return nil, err
	}
	retried, _, err := h.RetryOnce(ctx, frontier.Failures{
		Host: strings.ToLower(in.Body.Host), Outcome: in.Body.Outcome, Within: time.Duration(in.Body.Seconds) * time.Second,
	}, author(ctx), idText(requestID(ctx)))
	if err != nil {
		return nil, err
	}
	crash.Point("serve retried")
	s.fleet.runner.wake(m)
	return body(retried, nil)
}
