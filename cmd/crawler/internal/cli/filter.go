package cli

import (
	"context"
	"net/http"
	"time"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/cli/size"
	"github.com/bloomfrontier/crawler/frontier"
)

// liveFilter is what `crawler size --dir` asks for.
func (s streams) liveFilter(ctx context.Context, dir string) (live size.Live, err error) {
	if dir, err = existing(dir); err != nil {
		return live, err
	}
	err = visitCrawl(ctx, dir, s,
		func() error { return callControl(ctx, dir, "GET", "/filter", nil, &live) },
		func(ses *session) error {
			live.Layers = ses.store.FilterLayers()
			return nil
		})
	return live, err
}

// handleFilter answers what the filter is now, and how it grew since the call
// of handleFilter.
func (ses *session) handleFilter() http.HandlerFunc {
	begun, before := time.Now(), keysOf(ses.store.FilterLayers())
	return func(w http.ResponseWriter, _ *http.Request) {
		layers := ses.store.FilterLayers()
		reply(w, size.Live{Layers: layers, Added: keysOf(layers) - before, Ran: time.Since(begun)}, nil)
	}
}

func keysOf(layers []frontier.FilterLayer) (keys uint64) {
	for _, l := range layers {
		keys += l.Keys
	}
	return keys
}
