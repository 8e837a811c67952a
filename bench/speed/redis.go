package speed

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// usedBy returns what asks the servers behind client for what they used.
func usedBy(client redis.UniversalClient) func(context.Context) (Server, error) {
	return func(ctx context.Context) (sum Server, err error) {
		cluster, many := client.(*redis.ClusterClient)
		if !many {
			return usedByNode(ctx, client)
		}
		var mu sync.Mutex
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			used, err := usedByNode(ctx, node)
			mu.Lock()
			defer mu.Unlock()
			sum = Server{sum.CPU + used.CPU, sum.Wire + used.Wire, sum.Log + used.Log}
			return err
		})
		return sum, err
	}
}

// patience is how long a server may keep back its log: Redis does for 2 s while
// it syncs what came before.
const patience = 3 * time.Second

// usedByNode asks one server, when all that it answered is in its log, or it has
// been waited for long enough: others may write to it.
func usedByNode(ctx context.Context, node redis.Cmdable) (Server, error) {
	for began := time.Now(); ; {
		text, err := node.Info(ctx, "all").Result()
		if err != nil {
			return Server{}, fmt.Errorf("ask Redis what it used: %w", err)
		}
		used, held, err := parseInfo(text)
		if err != nil || !held || time.Since(began) > patience {
			return used, err
		}
		select {
		case <-ctx.Done():
			return used, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// parseInfo reads the answer to INFO; held: a part of the log is not in its file.
func parseInfo(text string) (used Server, held bool, err error) {
	fields := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			fields[name] = number
		}
	}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, has := fields[name]
		if !has {
			return used, false, fmt.Errorf("the INFO of this Redis has no %s", name)
		}
		used.CPU += time.Duration(seconds * float64(time.Second))
	}
	used.Wire = uint64(fields["total_net_input_bytes"] + fields["total_net_output_bytes"])
	used.Log = uint64(fields["aof_current_size"])
	return used, fields["aof_buffer_length"] > 0, nil
}
