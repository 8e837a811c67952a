package redisbits

import (
	"testing"

	"github.com/bloomfrontier/crawler/bench/servers"
	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
)

func TestConformance(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	for name, config := range map[string]Config{
		"growth=off":   {Capacity: bloomtest.Keys, FPR: bloomtest.MaxRate, Growth: GrowthOff},
		"growth=on":    {Capacity: bloomtest.Keys, FPR: bloomtest.MaxRate},
		"growth=often": {Capacity: 2000, FPR: bloomtest.MaxRate, Partitions: 4}, // racers meet while layers begin
		"partitions=1": {Capacity: bloomtest.Keys, FPR: bloomtest.MaxRate, Partitions: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bloomtest.Run(t, func(t *testing.T) bloomstore.Filter { return fresh(t, client, config) })
		})
	}
}
