package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// The versions of a crawl's policy are texts, which package redisstore does not read. The newest
// one is stored with everything that a worker needs, and the earlier ones as they are shown.

// Fields of the hash Config.versionsKey. A field with a number has the text of that version for the history.
const (
	numberField = "number" // of the newest version
	newestField = "newest" // its text
)

// KeptVersions is the number of versions in the history of a crawl.
const KeptVersions = 1000

func (c *Config) versionsKey() string { return c.cardKey() + ":policy" }

// Version is a version of the policy of a crawl.
type Version struct {
	Number  uint64 // 1 or more
	Text    string // for workers
	History string // for people
}

// NewestVersion returns the text of the newest version, or "" if there is none.
func (s *Store) NewestVersion(ctx context.Context) (text string, err error) {
	text, err = s.client.HGet(ctx, s.cfg.versionsKey(), newestField).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return text, s.classify(ctx, err)
}

// StoredVersion returns the text of the newest version of the crawl cfg.Name, or "" if there is none. It
// uses only Redis and Name of cfg.
func StoredVersion(ctx context.Context, cfg Config) (text string, err error) {
	s, err := connect(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer s.Close()
	return s.NewestVersion(ctx)
}

// Versions returns the texts of the history by their numbers.
func (s *Store) Versions(ctx context.Context) (map[uint64]string, error) {
	all, err := s.client.HGetAll(ctx, s.cfg.versionsKey()).Result()
	if err != nil {
		return nil, s.classify(ctx, err)
	}
	texts := make(map[uint64]string)
	for field, text := range all {
		if number, err := strconv.ParseUint(field, 10, 64); err == nil {
			texts[number] = text
		}
	}
	return texts, nil
}

// AddVersion stores the version after the newest one. If the result is false, another version is
// the newest one now. AddVersion returns when a restart of the server cannot lose the version any
// more or, with replicas > 0, when that many replicas have it. It can be repeated after an error.
func (s *Store) AddVersion(ctx context.Context, v Version, replicas int) (bool, error) {
	added, err := s.storeVersion(ctx, v, "1", replicas)
	if err != nil || !added || replicas > 0 {
		return added, err
	}
	crash.Point("policy stored")
	if err := sleep(ctx, s.durable); err != nil {
		return false, err
	}
	if again, err := s.storeVersion(ctx, v, "1", 0); err != nil || again {
		return again, err
	}
	// A later version may have been made from this one.
	text, err := s.client.HGet(ctx, s.cfg.versionsKey(), strconv.FormatUint(v.Number, 10)).Result()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return text == v.History, s.classify(ctx, err)
}

// PublishVersion stores a version if the server has only older ones, because it has lost this one.
func (s *Store) PublishVersion(ctx context.Context, v Version) (bool, error) {
	return s.storeVersion(ctx, v, "", 0)
}

// storeVersion runs version.lua and then waits for replicas, on the same connection.
func (s *Store) storeVersion(ctx context.Context, v Version, next string, replicas int) (bool, error) {
	client := redis.Cmdable(s.client)
	if s.nodes.cluster != nil {
		node, err := s.nodes.cluster.MasterForKey(ctx, s.cfg.versionsKey())
		if err != nil {
			return false, s.classify(ctx, err)
		}
		client = node
	}
	pipe := client.Pipeline()
	stored := versionScript.Eval(ctx, pipe, []string{s.cfg.versionsKey()}, v.Number, v.Text, v.History, next, KeptVersions)
	var have *redis.Cmd
	if replicas > 0 {
		have = pipe.Do(ctx, "wait", replicas, waitReplicas.Milliseconds())
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return false, s.classify(ctx, err)
	}
	done, err := stored.Bool()
	if err == nil && have != nil {
		var n int64
		if n, err = have.Int64(); err == nil && n < int64(replicas) {
			err = fmt.Errorf("%w: %d of %d replicas have the new version of the policy", frontier.ErrUnavailable, n, replicas)
		}
	}
	return done, s.classify(ctx, err)
}
