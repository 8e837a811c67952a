package cli

import (
	"context"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/cli/size"
)

// liveFilter implements `crawler size --dir`.
func (s streams) liveFilter(ctx context.Context, dir string) (live size.Live, err error) {
	at, err := directoryOf(dir)
	if err != nil {
		return live, err
	}
	c, err := at.attach(ctx)
	if err != nil {
		return live, err
	}
	state, err := c.Filter(ctx)
	return size.Live(state), at.explain(err)
}
