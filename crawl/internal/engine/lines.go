package engine

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
)

// WithContext returns an iterator over values. After ctx has ended, the iterator yields
// the error of ctx.
func WithContext[T any](ctx context.Context, values iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range values {
			if !yield(v, errors.Join(err, ctx.Err())) {
				return
			}
		}
	}
}

// CopyLines writes lines to w. It stops with an error when ctx ends.
func CopyLines(ctx context.Context, lines iter.Seq2[[]byte, error], w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	for line, err := range WithContext(ctx, lines) {
		if err == nil {
			_, err = out.Write(line)
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}
