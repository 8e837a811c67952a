package redisbits

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrEvicts reports that a server can evict any key when its memory is full, so that a filter
// could lose segments.
var ErrEvicts = errors.New("redisbits: the server may evict any key")

// checkServer checks that a server and its client are safe for a filter. It returns an
// ErrEvicts if the server has a maxmemory-policy of allkeys-…, and an error if the client
// reads from replicas, which can return old data. It asks every primary of a cluster, with
// INFO. It must be called when a filter is opened and after a reconnect, because the policy
// can change.
func checkServer(ctx context.Context, client redis.UniversalClient) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		if cluster.Options().ReadOnly {
			return errors.New("redisbits: the client reads from replicas (ReadOnly, RouteByLatency or RouteRandomly is set)")
		}
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return checkEviction(ctx, node)
		})
	}
	return checkEviction(ctx, client)
}

func checkEviction(ctx context.Context, node redis.Cmdable) error {
	info, err := node.Info(ctx, "memory").Result() // InfoMap panics if the answer of a proxy has no sections
	if err != nil {
		return fmt.Errorf("ask for the eviction policy: %w", err)
	}
	for line := range strings.Lines(info) {
		policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:")
		if ok && strings.HasPrefix(policy, "allkeys-") {
			return fmt.Errorf("%w: its maxmemory-policy is %q, want noeviction or volatile-…", ErrEvicts, policy)
		}
	}
	return nil
}
