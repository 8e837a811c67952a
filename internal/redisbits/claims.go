package redisbits

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// Claims reports for each layer of the chain, oldest first, whether it claims print. The
// chain must be open. Reader is faster, but does not return the answers of single layers.
func (c *Chain) Claims(ctx context.Context, client redis.UniversalClient, print bloomstore.Fingerprint) ([]bool, error) {
	keyed := *c.keyed.Load()
	pipe := client.Pipeline()
	blocks := make([]*redis.StringCmd, len(keyed))
	for i, t := range keyed {
		segment, from := t.Locate(print)
		blocks[i] = pipe.GetRange(ctx, t.keys[segment], from, from+int64(t.BlockBytes)-1)
	}
	replies, err := pipe.Exec(ctx)
	if err != nil {
		return nil, pipeError(err, replies)
	}
	claims := make([]bool, len(keyed))
	for i, t := range keyed {
		block := blocks[i].Val()
		if len(block) != t.BlockBytes {
			segment, _ := t.Locate(print)
			return nil, shortBlock(t.keys[segment], len(block), t.BlockBytes)
		}
		claims[i] = t.Known([]byte(block), print)
	}
	return claims, nil
}
