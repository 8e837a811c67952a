package redisbits

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestLostIsNeverEmpty breaks the stored filter in each possible way. A read of the open
// filter, an add to it, and Open must then return the wanted error.
func TestLostIsNeverEmpty(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	lost, foreign := bloomstore.ErrFilterLost, bloomstore.ErrParamsMismatch
	for _, c := range []struct {
		name string
		harm func(ctx context.Context, f *Filter, segment string) error
		want error
	}{
		{"evicted", func(ctx context.Context, _ *Filter, segment string) error { return client.Del(ctx, segment).Err() }, lost},
		{"flushed", func(ctx context.Context, f *Filter, _ string) error { return unlinkAll(ctx, client, f) }, lost},
		{"shortened", func(ctx context.Context, _ *Filter, segment string) error {
			head := client.GetRange(ctx, segment, 0, HeaderBytes+9).Val()
			return client.Set(ctx, segment, head, 0).Err()
		}, lost},
		{"of another type", func(ctx context.Context, _ *Filter, segment string) error {
			client.Del(ctx, segment)
			return client.RPush(ctx, segment, "a").Err()
		}, lost},
		{"zeroed", func(ctx context.Context, _ *Filter, segment string) error {
			length := client.StrLen(ctx, segment).Val()
			client.Del(ctx, segment)
			return client.SetRange(ctx, segment, length-1, "\x00").Err()
		}, lost},
		{"replaced by a segment of another filter", func(ctx context.Context, f *Filter, segment string) error {
			h := f.chains[0].header
			h.id[0] ^= 1
			h.hashes, h.segments = f.layout.Layer(0).Hashes, f.layout.Layer(0).Segments
			return client.SetRange(ctx, segment, 0, string(h.encode())).Err()
		}, foreign},
	} {
		for _, layers := range []int{1, 3} { // the broken layer is the newest, or an older one
			t.Run(fmt.Sprintf("%s/layers=%d", c.name, layers), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
				config := Config{Name: "harmed" + fmt.Sprint(rng.Uint64()), Capacity: 200, Partitions: 1, FPR: 1e-3}
				f := open(t, client, config)
				defer Delete(context.WithoutCancel(t.Context()), client, config.Name)
				old := randomPrints(rng, 200*(1<<layers-1))
				if _, err := f.AddIfAbsent(t.Context(), old); err != nil {
					t.Fatal(err)
				}
				if f.chains[0].Layers() != layers {
					t.Fatalf("%d layers, want %d", f.chains[0].Layers(), layers)
				}
				if err := c.harm(t.Context(), f, f.chains[0].SegmentKey(0, 0)); err != nil {
					t.Fatal(err)
				}
				f.chains[0].checked.Store(0) // so that the headers are checked, as after a second
				_, err := f.Contains(t.Context(), randomPrints(rng, 64))
				wantNamed(t, "Contains", err, c.want)
				f.chains[0].checked.Store(0)
				_, err = f.AddIfAbsent(t.Context(), randomPrints(rng, 64))
				wantNamed(t, "AddIfAbsent", err, c.want)
				if layers == 1 { // the add notices the fault although no check of the headers is due
					f.chains[0].checked.Store(int64(time.Since(f.chains[0].born)) + int64(time.Hour))
					_, err = f.AddIfAbsent(t.Context(), randomPrints(rng, 64))
					wantNamed(t, "AddIfAbsent directly after a check of the headers", err, c.want)
				}
				if c.name == "flushed" { // nothing is left to open
					return
				}
				_, err = Open(t.Context(), client, config)
				wantNamed(t, "Open", err, c.want)
			})
		}
	}
}

func wantNamed(t *testing.T, who string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), `"{harmed`) {
		t.Errorf("%s: error %v, want %q with the name of the key", who, err, want)
	}
}

func unlinkAll(ctx context.Context, client *redis.Client, f *Filter) error {
	for _, c := range f.chains {
		if err := c.Delete(ctx, client); err != nil {
			return err
		}
	}
	return nil
}

// TestReplacedSegmentIsNoticedInASecond: a check of the headers is due again if more than
// verifyEvery has passed since the last check, and not before.
func TestReplacedSegmentIsNoticedInASecond(t *testing.T) {
	c := layoutOf(t, Params{}).Chain(ID{}, 0, "{x}")
	at := func(after time.Duration) time.Time { return c.born.Add(after) }
	for _, step := range []struct {
		after time.Duration
		due   bool
	}{{0, true}, {0, false}, {verifyEvery, false}, {verifyEvery + 2, true}, {verifyEvery + 3, false}, {2*verifyEvery + 3, true}} {
		if due := c.verifyDue(at(step.after)); due != step.due {
			t.Errorf("verifyDue after %v = %t, want %t", step.after, due, step.due)
		}
	}
}

// TestFailedVerificationIsRepeated: if a check of headers fails because of an outage, the first
// read after the outage makes the check, however long the outage was.
func TestFailedVerificationIsRepeated(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	proxy := servers.Proxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(), MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer client.Close()
	f := open(t, client, Config{Name: "unreachable", Capacity: 100, Partitions: 1})
	c, r := f.chains[0], NewReader(client)
	asks := []Ask{{Chain: c}}
	proxy.Down()
	for range 3 {
		c.checked.Store(0) // so that the headers are checked, as after a second
		if err := r.Read(t.Context(), asks); err == nil {
			t.Fatal("Read through a proxy that is down: no error")
		}
		if len(r.due) > 0 {
			t.Fatalf("after a Read that failed, %d chains are due for a check, want 0", len(r.due))
		}
	}
	proxy.Up()
	h := c.header
	h.id[0] ^= 1
	if err := dial(t, server).SetRange(t.Context(), c.SegmentKey(0, 0), 0, string(h.encode())).Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.Read(t.Context(), asks); !errors.Is(err, bloomstore.ErrParamsMismatch) {
		t.Errorf("Read of a segment that was replaced during the outage: %v, want ErrParamsMismatch", err)
	}
}

// TestLostRecords deletes or damages the record of one chain. Open must return the
// wanted error.
func TestLostRecords(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	config := Config{Name: "harmed-records", Capacity: 100, Partitions: 4}
	f := open(t, client, config)
	record := f.chains[2].Record()
	kept := client.HGetAll(t.Context(), record).Val()
	for name, c := range map[string]struct {
		harm func(ctx context.Context) error
		want error
	}{
		"gone":                             {func(ctx context.Context) error { return client.Del(ctx, record).Err() }, bloomstore.ErrFilterLost},
		"of another chain":                 {func(ctx context.Context) error { return client.Copy(ctx, f.chains[1].Record(), record, 0, true).Err() }, bloomstore.ErrParamsMismatch},
		"a string":                         {func(ctx context.Context) error { return client.Set(ctx, record, "x", 0).Err() }, bloomstore.ErrFilterLost},
		"without layers":                   {func(ctx context.Context) error { return client.HDel(ctx, record, "layers").Err() }, bloomstore.ErrFilterLost},
		"with no layers":                   {func(ctx context.Context) error { return client.HSet(ctx, record, "layers", 0).Err() }, bloomstore.ErrFilterLost},
		"with a layer that does not exist": {func(ctx context.Context) error { return client.HSet(ctx, record, "layers", 2).Err() }, bloomstore.ErrFilterLost},
		"with many layers":                 {func(ctx context.Context) error { return client.HSet(ctx, record, "layers", 99).Err() }, bloomstore.ErrFilterLost},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.harm(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), client, config)
			wantNamed(t, "Open", err, c.want)
			client.Del(t.Context(), record)
			if err := client.HSet(t.Context(), record, kept).Err(); err != nil {
				t.Fatal(err)
			}
			open(t, client, config)
		})
	}
}

// TestOtherParameters opens a filter with other parameters, one at a time. The error
// must name the parameter.
func TestOtherParameters(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	config := Config{Name: "mine", Capacity: 10_000, Partitions: 4}
	open(t, client, config)
	for says, other := range map[string]Config{
		"capacity is":            {Name: "mine", Capacity: 20_000, Partitions: 4},
		"false-positive rate is": {Name: "mine", Capacity: 10_000, Partitions: 4, FPR: 1e-5},
		"growth is":              {Name: "mine", Capacity: 10_000, Partitions: 4, Growth: GrowthOff},
		"block bits is":          {Name: "mine", Capacity: 10_000, Partitions: 4, BlockBits: 512},
		"partition is":           {Name: "mine", Capacity: 10_000, Partitions: 8},
	} {
		_, err := Open(t.Context(), client, other)
		if !errors.Is(err, bloomstore.ErrParamsMismatch) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), ", want ") {
			t.Errorf("Open(%+v): %v, want an ErrParamsMismatch that says %q", other, err, says)
		}
	}
	open(t, client, config) // the filter was not changed
}

// TestEvictionPolicyIsRefused: a server that can evict any key is refused.
func TestEvictionPolicyIsRefused(t *testing.T) {
	for policy, refused := range map[string]bool{"allkeys-lru": true, "allkeys-random": true, "noeviction": false, "volatile-lru": false} {
		client := dial(t, servers.Redis(t, servers.RedisOptions{Config: map[string]string{"maxmemory": "100mb", "maxmemory-policy": policy}}))
		_, err := Open(t.Context(), client, Config{Name: "x", Capacity: 100, Partitions: 1})
		if errors.Is(err, ErrEvicts) != refused || refused && !strings.Contains(err.Error(), policy) {
			t.Errorf("Open with the policy %s: %v, want ErrEvicts: %t", policy, err, refused)
		}
	}
}

// TestOutOfMemory: opening a filter that does not fit into memory returns an error. When
// there is enough memory, the filter can be opened.
func TestOutOfMemory(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{Config: map[string]string{"maxmemory": "20mb"}}))
	config := Config{Name: "x", Capacity: 10_000_000, Partitions: 8}
	_, err := Open(t.Context(), client, config)
	if err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Fatalf("Open of a filter of 40 MB with 20 MB of memory: %v, want the server's error OOM", err)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	f := open(t, client, config)
	if added, err := f.AddIfAbsent(t.Context(), []bloomstore.Fingerprint{{1}}); err != nil || !added[0] {
		t.Errorf("AddIfAbsent = %v, %v; want the key added", added, err)
	}
}
