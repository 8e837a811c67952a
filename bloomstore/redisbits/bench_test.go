package redisbits

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bloomfrontier/crawler/bench/servers"
	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
)

func BenchmarkFilter(b *testing.B) {
	client := dial(b, servers.Redis(b, servers.RedisOptions{}))
	bloomtest.Bench(b, func(b *testing.B) bloomstore.Filter {
		return fresh(b, client, Config{Capacity: bloomtest.Keys, FPR: bloomtest.MaxRate})
	})
}

// BenchmarkSeen measures seen-tests of known fingerprints from one process.
func BenchmarkSeen(b *testing.B) {
	const keys = 1_000_000
	server := servers.Redis(b, servers.RedisOptions{})
	client := redis.NewClient(&redis.Options{
		Network: "unix", Addr: server.Socket(), DisableIdentity: true, Protocol: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		ReadBufferSize:           256 << 10, WriteBufferSize: 128 << 10,
	})
	defer client.Close()
	f := fresh(b, client, Config{Capacity: keys, Partitions: 256})
	prints := randomPrints(rand.New(rand.NewPCG(1, 0)), keys)
	if _, err := f.AddIfAbsent(b.Context(), prints); err != nil {
		b.Fatal(err)
	}
	for _, readers := range []int{1, 2, 4} {
		for _, batch := range []int{100, 1000, 4000} {
			b.Run(fmt.Sprintf("readers=%d/batch=%d", readers, batch), func(b *testing.B) {
				b.ReportAllocs()
				var next atomic.Int64
				var wg sync.WaitGroup
				before, _ := server.CPU()
				for range readers {
					wg.Go(func() {
						r := NewReader(client)
						asks := make([]Ask, batch)
						for {
							i := int(next.Add(1)) - 1
							if i*1000 >= b.N*1000 {
								return
							}
							at := i * batch % (keys - batch)
							for j := range asks {
								fp := prints[at+j]
								asks[j] = Ask{Chain: f.chains[PartitionOf(fp, 256)], Print: fp}
							}
							if err := r.Read(b.Context(), asks); err != nil {
								b.Error(err)
								return
							}
							for j := range asks {
								if !asks[j].Known {
									b.Error("absent")
									return
								}
							}
						}
					})
				}
				wg.Wait()
				after, _ := server.CPU()
				n := float64(b.N) * float64(batch)
				b.ReportMetric(n/b.Elapsed().Seconds(), "keys/s")
				b.ReportMetric(float64((after-before)/time.Nanosecond)/1e3/n, "server-µs/key")
			})
		}
	}
}
