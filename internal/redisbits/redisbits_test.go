package redisbits

import (
	"context"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

var (
	_     = flag.Uint64("seed", 0, "replay random tests with this seed")
	proof = flag.Bool("proof", false, "run the tests at full size")
)

// dial returns a client with the options that a caller of this package uses.
func dial(t testing.TB, server *servers.RedisServer) *redis.Client {
	t.Helper()
	return dialTo(t, &redis.Options{Network: "unix", Addr: server.Socket()})
}

func dialTo(t testing.TB, at *redis.Options) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Network: at.Network, Addr: at.Addr, DisableIdentity: true, ReadTimeout: time.Minute,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { client.Close() })
	return client
}

func open(t testing.TB, client redis.UniversalClient, config Config) *Filter {
	t.Helper()
	f, err := Open(t.Context(), client, config)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// fresh opens a new filter, and deletes it when the test ends.
func fresh(t testing.TB, client redis.UniversalClient, config Config) *Filter {
	t.Helper()
	_, f := named(t, client, config)
	return f
}

// named does the same as the function fresh, and also returns the config with
// the name.
func named(t testing.TB, client redis.UniversalClient, config Config) (Config, *Filter) {
	t.Helper()
	config.Name = "t" + strconv.FormatUint(rand.Uint64(), 36)
	f := open(t, client, config)
	t.Cleanup(func() {
		if err := Delete(context.WithoutCancel(t.Context()), client, config.Name); err != nil {
			t.Error(err)
		}
	})
	return config, f
}

func randomPrint(rng *rand.Rand) (fp bloomstore.Fingerprint) {
	binary.LittleEndian.PutUint64(fp[:8], rng.Uint64())
	binary.LittleEndian.PutUint64(fp[8:], rng.Uint64())
	return fp
}

func randomPrints(rng *rand.Rand, n int) []bloomstore.Fingerprint {
	prints := make([]bloomstore.Fingerprint, n)
	for i := range prints {
		prints[i] = randomPrint(rng)
	}
	return prints
}
