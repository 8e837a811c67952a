package redisstore

import (
	"context"
	"errors"

	"github.com/bloomfrontier/crawler/frontier"
)

// Submit implements frontier.Submitter. A crawl in Redis does not support it yet.
func (*Store) Submit(context.Context, frontier.Chunk, []frontier.Line) ([]frontier.Verdict, bool, error) {
	return nil, false, errors.ErrUnsupported
}

// Answered implements frontier.Submitter.
func (*Store) Answered(context.Context, frontier.Chunk) ([]frontier.Verdict, bool, error) {
	return nil, false, errors.ErrUnsupported
}

// RetryOnce implements frontier.Submitter.
func (*Store) RetryOnce(context.Context, frontier.Chunk, frontier.Failures) (int, bool, error) {
	return 0, false, errors.ErrUnsupported
}
