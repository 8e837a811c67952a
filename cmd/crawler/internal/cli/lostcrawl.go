package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/pgstore"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/human"
)

// lostCrawl reports a crawl that Postgres knows and its Redis does not: that was
// emptied, or is another one.
type lostCrawl struct {
	home *sharedHome
	kept pgstore.Kept
}

func (e *lostCrawl) Error() string {
	at := place{home: e.home}
	rebuild := at.command("rebuild")
	if e.home.dir == "" {
		rebuild += " [--dir DIR]"
	} else {
		rebuild += " --dir " + shellQuote(e.home.dir)
	}
	return fmt.Sprintf("Postgres knows the crawl %s, but Redis does not: it was emptied, or is another one.\n%s.\n"+
		"'%s' makes the crawl again of what Postgres and the records in its workers' directories, which are in DIR, have.\n"+
		"'%s' removes it, so that it can begin anew.", e.home.title(), e.loss(), rebuild, at.command("delete"))
}

// loss says what went with the Redis.
func (e *lostCrawl) loss() string {
	if e.kept.At.IsZero() {
		return "How many URLs waited there nobody has noted; Postgres has the exact ones, the others are lost"
	}
	bulk := e.kept.All - min(e.kept.Exact, e.kept.All)
	return fmt.Sprintf("About %s waited there at %s; Postgres has the exact ones, about %s, and about %s are lost",
		human.Plural(e.kept.All, "URL"), e.kept.At.Format("2006-01-02 15:04:05 MST"),
		human.Commas(e.kept.Exact), human.Plural(bulk, "other"))
}

// lost returns the lostCrawl that a crawl which Redis does not know is, or nothing
// if Postgres knows it neither.
func (h *sharedHome) lost(ctx context.Context) (frontier.Settings, error) {
	if h.db == nil {
		return nil, nil
	}
	kept, err := pgstore.Read(ctx, pgstore.Config{DSN: h.db.dsn, Crawl: h.name})
	if errors.Is(err, pgstore.ErrNoCrawl) {
		return nil, nil
	}
	if err != nil {
		return nil, h.db.explain(err)
	}
	// A crawl that another worker creates at this moment is in Redis before it is
	// in Postgres.
	settings, err := redisstore.StoredSettings(ctx, h.config())
	if errors.Is(err, redisstore.ErrNoCrawl) {
		return nil, &lostCrawl{h, kept}
	}
	if err != nil {
		return nil, h.explain(err)
	}
	return settings, nil
}

// recreate makes a crawl again that Redis has lost; a rebuild must follow. Of a
// crawl that is there it does nothing.
func (h *sharedHome) recreate(ctx context.Context, w io.Writer) error {
	_, err := h.fixed(ctx)
	lost, is := errors.AsType[*lostCrawl](err)
	if !is {
		return err
	}
	err = redisstore.Recreate(ctx, h.config(), lost.kept.Card)
	if errors.Is(err, redisstore.ErrExists) { // another was faster
		return nil
	}
	if err != nil {
		return h.explain(err)
	}
	fmt.Fprintf(w, "%s is made again. %s\n", h.title(), lost.loss())
	return nil
}

// How often a crawl's workers note in Postgres how much waits in Redis.
const (
	keepEvery = 15 * time.Second
	keepLast  = 2 * time.Second // bounds a worker's last note
)

// keep notes how much waits until ctx ends, and then once more.
func (e *sharedEngine) keep(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		if err := e.keepOnce(ctx, keepEvery/2); err != nil && ctx.Err() == nil {
			e.log.LogAttrs(ctx, slog.LevelDebug, "not noted what waits", slog.Any("err", err))
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLast)
		defer cancel()
		_ = e.keepOnce(last, 0) // the one before stands
		return
	}
}

func (e *sharedEngine) keepOnce(ctx context.Context, age time.Duration) (err error) {
	var waits pgstore.Waited
	if waits.All, waits.Exact, err = e.Waiting(ctx); err != nil {
		return err
	}
	return e.tier.set.Keep(ctx, waits, age)
}
