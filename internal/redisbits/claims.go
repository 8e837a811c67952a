package redisbits

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// Claims reports for each layer of the chain, oldest first, whether the layer claims to
// contain the fingerprint. The chain must be open.
func (c *Chain) Claims(ctx context.Context, client redis.UniversalClient, print bloomstore.Fingerprint) ([]bool, error) {
	r, asks := NewReader(client), []Ask{{Chain: c, Print: print}}
	if err := r.Read(ctx, asks); err != nil {
		return nil, err
	}
	layers := asks[0].keyed
	claims := make([]bool, len(layers))
	for i, t := range layers {
		block := r.reads[len(layers)-1-i].cmd.Bytes() // the newest layer was read first
		claims[i] = t.Known(block, print)
	}
	return claims, nil
}
