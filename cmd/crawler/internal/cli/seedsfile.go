package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/bloomfrontier/crawler/internal/human"
)

// reportSeeds writes DIR/seeds.jsonl again.
func reportSeeds(ctx context.Context, c *attached, w io.Writer) error {
	path, n, err := c.WriteSeeds(ctx)
	if err != nil {
		return c.at.explain(err)
	}
	_, err = fmt.Fprintf(w, "%s in %s\n", human.Plural(n, "seed"), path)
	return err
}
