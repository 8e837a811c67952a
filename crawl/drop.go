package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// Dropped counts what a call of Handle.Drop has dropped.
type Dropped struct {
	URLs  uint64 `json:"urls"`
	Hosts uint64 `json:"hosts"`
}

// Drop goes through the queue and ends the URLs that wait and that the policy refuses, in the hosts that a rule
// selects (see policy.ParseTarget), without a request, as workers do when they have their turn. The rule itself is
// made with Change. If a process runs the crawl from the handle's directory, it does this. Otherwise this process is a
// worker meanwhile, with a directory of its own: its records stay there. Drop works in small steps, can be
// cancelled, and can be repeated. It leaves out URLs that workers have, and those that wait for another attempt.
func (h *Handle) Drop(ctx context.Context, rule string) (Dropped, error) {
	if h.own != nil || h.kept != nil || h.Running(ctx) {
		return ask(ctx, h, verbDrop, rule)
	}
	place, err := h.dropPlace()
	if err != nil {
		return Dropped{}, err
	}
	if h.location.Redis == nil {
		if err := h.lock(ctx); err != nil {
			return Dropped{}, err
		}
		defer h.unlock()
	}
	ses, err := openStored(ctx, h.location, place, nil, engine.ToCrawl)
	if err != nil {
		return Dropped{}, err
	}
	dropped, err := ses.drop(ctx, rule)
	return dropped, errors.Join(err, ses.close())
}

// dropPlace returns the place of a worker that only drops URLs. Its directory is not that of another worker.
func (h *Handle) dropPlace() (engine.Place, error) {
	server, is := h.place.(*engine.Server)
	if !is || server.Dir == "" { // Dir is the parent of the workers' directories
		return h.place, nil
	}
	name, err := os.Hostname()
	own := *server
	own.Dir = filepath.Join(own.Dir, name+"-drop")
	return &own, err
}

// drop implements Handle.Drop.
func (ses *session) drop(ctx context.Context, rule string) (sum Dropped, err error) {
	t, err := policy.ParseTarget(rule)
	if err != nil {
		return sum, fmt.Errorf("%w: %q: %w", ErrRefused, rule, err)
	}
	newest, err := ses.engine.NewestVersion(ctx)
	if err == nil {
		err = ses.adopt(newest)
	}
	if err != nil {
		return sum, err
	}
	return ses.dropIn(ctx, oneHost(&t), t.SelectsHost, func(item *frontier.Item) bool {
		offer := item.Offer()
		return t.WholeHosts() || t.Selects(&offer, ses.plan.exact.Name(item.Class))
	}, ses.worker.Drop)
}

// dropIn calls the function drop for each queue in which an item is selected, with the length of the queue, and adds up
// its results. An empty host means all hosts.
func (ses *session) dropIn(ctx context.Context, host string, selectsHost func(string) bool, selects func(*frontier.Item) bool,
	drop func(ctx context.Context, host string, most uint64) (uint64, error)) (sum Dropped, err error) {
	var failed error
	err = ses.engine.Hosts(ctx, frontier.HostQuery{Host: host}, func(h frontier.HostState) bool {
		if h.Queued == h.Delayed || !selectsHost(h.Host) {
			return ctx.Err() == nil
		}
		selected := false
		failed = ses.engine.List(ctx, frontier.Queued, h.Host, func(item frontier.Item) bool {
			selected = selects(&item)
			return !selected && ctx.Err() == nil
		})
		if selected && failed == nil {
			var n uint64
			n, failed = drop(ctx, h.Host, h.Queued)
			if sum.URLs += n; n > 0 {
				sum.Hosts++
			}
		}
		return failed == nil && ctx.Err() == nil
	})
	return sum, cmp.Or(failed, err, ctx.Err())
}
