package crawl

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/fields"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/extract"
	"github.com/bloomfrontier/crawler/internal/robots"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// Trial is what a crawl would extract from one page.
type Trial struct {
	Record record.Record  // the part about the page; the part about the crawl is empty
	Fields []fields.Found // the values of Settings.Fields, or the reason why a field has none
}

// ErrRobots reports that robots.txt forbids the page.
var ErrRobots = control.ErrRobots

// maxTrialRedirects is how many redirects a trial follows.
const maxTrialRedirects = 10

// Try requests one page, as a crawl with config would, and returns what config
// extracts from it. It obeys robots.txt, waits Settings.Delay between its requests and
// follows redirects. It opens no crawl: Dir and Redis are ignored.
func Try(ctx context.Context, config Config, url string) (*Trial, error) {
	p, err := config.prepareNew()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	target, err := seed.Parse(p.canon, url)
	if err != nil {
		return nil, err
	}
	visit := trialVisit{plan: p}
	spelling := target.String()
	for range maxTrialRedirects {
		answer, err := visit.page(ctx, target, spelling)
		if err != nil {
			return nil, fmt.Errorf("try %s: %w", target, err)
		}
		if answer.RedirectTo == "" {
			defer answer.Release()
			return p.trial(ctx, answer.Body, answer.MIMEType(), target, answer)
		}
		next := answer.RedirectTo
		answer.Release()
		if target, err = p.canon.Join(target, next); err != nil {
			return nil, fmt.Errorf("try %s: redirect to %q: %w", url, next, err)
		}
		if spelling, err = canon.Spell(spelling, next); err != nil {
			return nil, fmt.Errorf("try %s: redirect to %q: %w", url, next, err)
		}
	}
	return nil, fmt.Errorf("try %s: more than %d redirects", url, maxTrialRedirects)
}

// TryHTML is like Try, but body is the page and nothing is requested. The page's URL
// selects its fields and is the base of relative references.
func TryHTML(ctx context.Context, config Config, body []byte, url string) (*Trial, error) {
	p, err := config.prepareNew()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	target, err := seed.Parse(p.canon, url)
	if err != nil {
		return nil, err
	}
	return p.trial(ctx, body, "text/html", target, nil)
}

// trialVisit makes the requests of a trial.
type trialVisit struct {
	plan  *Plan
	asked bool // a request was made
}

// page requests a page in the given spelling, unless robots.txt forbids it.
func (v *trialVisit) page(ctx context.Context, url canon.URL, spelling string) (*get.Response, error) {
	if !v.plan.policy.Load().Host(v.plan.canon.HostKey(url)).IgnoreRobots {
		allowed, err := v.allowed(ctx, url, spelling)
		if err != nil {
			return nil, err
		}
		if !allowed {
			return nil, ErrRobots
		}
	}
	return v.get(ctx, get.Request{URL: spelling, AnyType: v.plan.policy.Load().AnyType})
}

// allowed reports whether robots.txt allows a spelling of a URL.
func (v *trialVisit) allowed(ctx context.Context, url canon.URL, spelling string) (bool, error) {
	at, next := canon.URL{}, url.Origin()+"/robots.txt"
	for range 1 + robots.MaxRedirects {
		var err error
		if at, err = v.plan.canon.Join(at, next); err != nil {
			return false, fmt.Errorf("robots.txt: %w", err)
		}
		answer, err := v.get(ctx, get.Request{URL: at.String(), AnyType: true, MaxBody: robots.MaxBytes})
		if err != nil {
			return false, fmt.Errorf("robots.txt: %w", err)
		}
		meaning := robots.FromStatus(answer.Status)
		next = answer.RedirectTo
		rules := robots.Parse(answer.Body, robots.ProductToken(v.plan.Settings.Agent))
		answer.Release()
		switch {
		case meaning == robots.Found:
			allowed, _ := rules.Allowed(canon.SpelledPath(spelling))
			return allowed, nil
		case meaning == robots.Unreachable:
			return false, fmt.Errorf("robots.txt: status %d", answer.Status)
		case meaning == robots.Missing || next == "":
			return true, nil
		}
	}
	return true, nil
}

// get makes a request, at least Settings.Delay after the previous one.
func (v *trialVisit) get(ctx context.Context, request get.Request) (*get.Response, error) {
	if v.asked {
		select {
		case <-time.After(v.plan.Settings.Delay):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	v.asked = true
	return v.plan.client.Get(ctx, request)
}

// trial extracts the data that the config asks for. The argument answer is nil if the
// page was not requested. As in a crawl, the work on the page is limited. If ctx ends during the
// work, the error is its cause.
func (p *Plan) trial(ctx context.Context, body []byte, contentType string, url canon.URL, answer *get.Response) (*Trial, error) {
	t := &Trial{Record: record.Record{URL: url.String(), Host: p.canon.HostKey(url), Bytes: int64(len(body)), Status: http.StatusOK, ContentType: "text/html"}}
	r := &t.Record
	if answer != nil {
		r.Status, r.ContentType, r.Truncated = answer.Status, answer.ContentType, answer.Truncated
		if !answer.IsHTML() {
			r.Error = fmt.Sprintf("%s is not HTML: it has no fields and no text", answer.ContentType)
			return t, nil
		}
	}
	began, spent := time.Now(), false
	giveUp := func() bool {
		spent = spent || time.Since(began) > fetcher.DocumentTime
		return spent || ctx.Err() != nil
	}
	page := extract.HTML(body, contentType, url, extract.Options{Canon: p.canon, GiveUp: giveUp})
	r.Title, r.Charset, r.Canonical, r.LinksFound = page.Title, page.Charset, page.Canonical.String(), uint64(len(page.Links))
	root := page.Document().Nodes[0]
	if page.Lack != extract.LacksNothing {
		r.NotTaken = page.Lack.Mark()
		r.Error = "the page has no document to take data from: " + page.Lack.String()
	}
	t.Fields = fetcher.TakeData(root, page.Base.String(), p.fields.For(r.URL), p.Settings.Text, giveUp, r)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if page.Lack == extract.LacksNothing && spent {
		r.NotTaken = extract.TooSlow.Mark()
		r.Error = "not all data of the page was taken: " + extract.TooSlow.String()
	}
	return t, nil
}
