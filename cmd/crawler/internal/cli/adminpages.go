package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/name"
	"github.com/bloomfrontier/crawler/serve/dashboard"
)

// adminPages are the crawl that this process runs, for the dashboard of --admin.
type adminPages struct{ *running }

var _ dashboard.Crawls = adminPages{}

// dashboard returns the handler of the dashboard. Its streams end with ctx.
func (r *running) dashboard(ctx context.Context) http.Handler {
	return dashboard.New(ctx, dashboard.Config{Crawls: adminPages{r}, Logger: r.log})
}

// name returns the name of the crawl in addresses.
func (p adminPages) name() string {
	of := strings.TrimSuffix(filepath.Base(p.plan.at.Dir), ".crawl")
	if p.plan.at.Redis != nil {
		of = p.plan.at.Redis.Name
	}
	if !name.OfCrawl(of) {
		return "crawl"
	}
	return of
}

// List implements dashboard.Crawls.
func (p adminPages) List(context.Context) []dashboard.Crawl {
	c := dashboard.Crawl{Name: p.name(), State: "running"}
	select {
	case <-p.crawl.Stopping():
		c.State = "stopping"
	default:
	}
	if err := p.crawl.Err(); err != nil {
		c.Fault = err.Error()
	}
	return []dashboard.Crawl{c}
}

// Open implements dashboard.Crawls.
func (p adminPages) Open(context.Context, string) (dashboard.Handle, error) {
	return p.crawl.Handle, nil
}

// Command implements dashboard.Crawls.
func (p adminPages) Command(_, what, of string) string {
	command := map[string]string{
		"status": "status", "report": "report", "hosts": "hosts", "explain": "explain", "relays": "relay status", "letters": "relay dead list",
		"records": "output", "settings": "config", "history": "config", "trouble": "hosts",
	}[what]
	line := p.plan.at.command(command)
	switch {
	case what == "trouble":
		line += " --trouble"
	case what == "history":
		line += " --history"
	case what == "hosts" && of != "":
		line += " --host " + shellQuote(of)
	case of != "":
		line += " " + shellQuote(of)
	}
	return line
}

// Do implements dashboard.Crawls.
func (p adminPages) Do(ctx context.Context, caller dashboard.Caller, _ string, a dashboard.Action) (err error) {
	h := p.crawl.Handle
	who := fmt.Sprintf("%s (dashboard, request %s)", caller.Name, a.Key)
	switch a.Kind {
	case dashboard.Pause:
		_, err = h.Pause(ctx)
	case dashboard.Resume:
		_, err = h.Resume(ctx)
	case dashboard.Stop:
		_, err = h.Stop(ctx)
	case dashboard.Set:
		return changeOnce(ctx, h, crawl.Change{Values: a.Settings, Who: who, Why: a.Why})
	case dashboard.Drop:
		if err = changeOnce(ctx, h, crawl.Change{Values: []string{"drop+=" + a.Rule}, Who: who, Why: a.Why}); err == nil {
			_, err = h.Drop(ctx, a.Rule)
		}
	case dashboard.Retry:
		_, err = h.Retry(ctx, a.Failures, who)
	case dashboard.Discard:
		return eachOutbox(ctx, h, func(box *crawl.Outbox) (int, error) { return box.Discard(ctx, a.Relay, a.Letters...) })
	case dashboard.Resend:
		return eachOutbox(ctx, h, func(box *crawl.Outbox) (int, error) { return box.Resend(ctx, a.Relay, a.Letters...) })
	}
	return err
}

// changeOnce changes the policy, unless its history has a version of c.Who.
func changeOnce(ctx context.Context, h *crawl.Handle, c crawl.Change) error {
	versions, err := h.History(ctx)
	if err != nil {
		return err
	}
	for i := range versions {
		if versions[i].Who == c.Who {
			return nil
		}
	}
	_, err = h.Change(ctx, c)
	return err
}

// eachOutbox changes the dead letters of each outbox of a crawl.
func eachOutbox(ctx context.Context, h *crawl.Handle, change func(box *crawl.Outbox) (int, error)) error {
	boxes, err := h.Outboxes(ctx)
	if err != nil {
		return err
	}
	list, err := boxes.List(ctx)
	for i := 0; i < len(list) && err == nil; i++ {
		_, err = change(&list[i])
	}
	return errors.Join(err, boxes.Close())
}
