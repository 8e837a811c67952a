package redisstore

import (
	"context"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// card is what was fixed when a crawl was created: the fields of its first key.
type card struct {
	ID         string
	Key        bloomstore.Key
	Partitions int
	Settings   frontier.Settings
}

func open(ctx context.Context, cfg Config, worker bool) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg}
	s.connect()
	return s, nil
}
