package cli

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/cli/size"
	"github.com/bloomfrontier/crawler/frontier"
)

// liveFilter is what `crawler size --dir` asks for.
func (s streams) liveFilter(ctx context.Context, dir string) (live size.Live, err error) {
	at, err := existing(ctx, dir)
	if err != nil {
		return live, err
	}
	err = lookAtCrawl(ctx, at, s,
		func() error { return callControl(ctx, at.dir, "GET", "/filter", nil, &live) },
		func(ses *session) (err error) {
			live.Layers, err = ses.store.FilterLayers(ctx)
			return err
		})
	return live, err
}

// filterHandler answers what the filter is now, and how it grew since the call
// of filterHandler.
func (ses *session) filterHandler(ctx context.Context, w io.Writer) (http.HandlerFunc, error) {
	begun := time.Now()
	var before []frontier.FilterLayer
	err := untilAvailable(ctx, w, "the crawl waits", func() (err error) {
		before, err = ses.store.FilterLayers(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter, r *http.Request) {
		layers, err := ses.store.FilterLayers(r.Context())
		reply(w, size.Live{Layers: layers, Added: keysOf(layers) - keysOf(before), Ran: time.Since(begun)}, err)
	}, nil
}

func keysOf(layers []frontier.FilterLayer) (keys uint64) {
	for _, l := range layers {
		keys += l.Keys
	}
	return keys
}
