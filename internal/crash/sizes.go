package crash

import (
	"context"
	"time"
)

// Sizes are sizes and times of a crawl that tests make small, so that a short crawl
// reaches the steps that a crash can interrupt. A zero field means the usual size.
type Sizes struct {
	CheckpointAdds  int           // additions between two checkpoints of the filter
	LeaseTTL        time.Duration // how long a worker may hold a host
	SaveRotateBytes int64         // length of a WARC file after which another one begins
}

type sizesKey struct{}

// WithSizes returns a context that contains sizes for crawl.Open.
func WithSizes(ctx context.Context, sizes Sizes) context.Context {
	return context.WithValue(ctx, sizesKey{}, sizes)
}

// SizesOf returns the sizes of a context. If the context has none, all fields are zero.
func SizesOf(ctx context.Context) Sizes {
	sizes, _ := ctx.Value(sizesKey{}).(Sizes)
	return sizes
}
