package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/internal/redisbits"
)

// ErrServer reports a server that cannot hold a crawl, because it is too old, evicts keys or
// denies commands. The message says what to change.
var ErrServer = errors.New("redisstore: unsupported Redis server")

// minVersion is the first supported version. From this version on, a server drops its scripts
// when it ends, and supports the flags of scripts.
const minVersion = 7

// checkServers returns an error if a server cannot hold a crawl.
func (s *Store) checkServers(ctx context.Context) error {
	err := s.eachServer(ctx, func(ctx context.Context, server *redis.Client) error {
		if _, err := s.checkServer(ctx, server); err != nil {
			return err
		}
		return s.checkCommands(ctx, server)
	})
	return s.classify(ctx, err)
}

// eachServer calls visit for the single server or for every primary of the cluster, possibly
// concurrently, and returns the first error.
func (s *Store) eachServer(ctx context.Context, visit func(context.Context, *redis.Client) error) error {
	if s.nodes.single != nil {
		return visit(ctx, s.nodes.single.client)
	}
	return s.nodes.cluster.ForEachMaster(ctx, visit)
}

// checkServer checks a server's version and eviction policy, and returns its run id. It is
// called for each epoch, because a server that replaces another can have other settings.
func (s *Store) checkServer(ctx context.Context, server *redis.Client) (run string, err error) {
	info, err := server.InfoMap(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	run, version := info["Server"]["run_id"], info["Server"]["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < minVersion {
		if strings.Contains(info["Server"]["executable"], "keydb") { // which is a Redis 6 with threads
			version = "KeyDB " + version
		}
		return "", fmt.Errorf("%w: its version is %q, want Redis %d.0 or later", ErrServer, version, minVersion)
	}
	if info, err = server.InfoMap(ctx, "memory").Result(); err != nil {
		return "", err
	}
	switch policy := info["Memory"]["maxmemory_policy"]; {
	case strings.HasPrefix(policy, "allkeys-"):
		return "", fmt.Errorf("%w: %w: its maxmemory-policy is %q, want noeviction", ErrServer, redisbits.ErrEvicts, policy)
	case strings.HasPrefix(policy, "volatile-"):
		// The keys that expire are the due times of hosts without queued items, the places of hosts in their sites, and the
		// answers to submissions.
		s.cfg.Logger.WarnContext(ctx, "a full server evicts keys that expire, which makes hosts due too early and forgets answers to submissions",
			"maxmemory_policy", policy, "want", "noeviction")
	}
	return run, nil
}

// commands are the commands that a Store sends or runs in scripts. Each has enough arguments
// to be accepted. KEY stands for a key.
var commands = []string{
	"DEL KEY", "EVAL s 0", "EVALSHA s 0", "EXISTS KEY", "GETRANGE KEY 0 0", "HDEL KEY f", "HEXISTS KEY f",
	"HGET KEY f", "HGETALL KEY", "HINCRBY KEY f 1", "HKEYS KEY", "HLEN KEY", "HMGET KEY f", "HSET KEY f v", "HSETNX KEY f v",
	"INFO", "LLEN KEY", "LPUSH KEY v", "LRANGE KEY 0 0", "LREM KEY 1 v", "LSET KEY 0 v", "LTRIM KEY 0 0",
	"PERSIST KEY", "PEXPIRE KEY 1", "PTTL KEY", "RPUSH KEY v", "SADD KEY v", "SCAN 0", "SCARD KEY", "SCRIPT LOAD s", "SETRANGE KEY 0 v", "SISMEMBER KEY v", "SMEMBERS KEY",
	"SMISMEMBER KEY v", "SREM KEY v", "SSCAN KEY 0", "STRLEN KEY", "TIME", "UNLINK KEY", "WAIT 0 0", "ZADD KEY 1 v", "ZCARD KEY",
	"ZMSCORE KEY v", "ZRANGE KEY 0 0", "ZRANGEBYSCORE KEY 0 0", "ZRANK KEY v", "ZREM KEY v", "ZSCORE KEY v",
}

// checkCommands returns an error if the user is not allowed to run the commands on keys of
// the crawl and of partitions. No command runs: the commands are queued in a transaction,
// which needs the same permissions, and the transaction is discarded.
func (s *Store) checkCommands(ctx context.Context, server *redis.Client) error {
	// If MULTI were denied, the commands after it would run.
	if err := discarded(ctx, server, func(redis.Pipeliner) {}); redis.HasErrorPrefix(err, "NOPERM") {
		return denial([]string{"multi"}, false)
	} else if err != nil {
		return err
	}
	keys := []string{s.cfg.cardKey(), newPartition(newID(), 0).meta}
	var asked []*redis.Cmd
	err := discarded(ctx, server, func(pipe redis.Pipeliner) {
		for _, command := range commands {
			for _, key := range keys {
				asked = append(asked, pipe.Do(ctx, commandOn(command, key)...))
			}
		}
	})
	if err != nil && !redis.HasErrorPrefix(err, "NOPERM") {
		return err
	}
	var denied []string
	foreign := false // becomes true if a key is not permitted
	for _, cmd := range asked {
		switch err := cmd.Err(); {
		case err == nil || !redis.HasErrorPrefix(err, "NOPERM"):
			// The command is permitted. Other errors do not matter here: the node does not
			// have the key, or is out of memory.
		case strings.Contains(err.Error(), "key"):
			foreign = true
		default:
			denied = append(denied, cmd.Name())
		}
	}
	slices.Sort(denied)
	return denial(slices.Compact(denied), foreign)
}

// commandOn returns the words of an entry of commands, with key in the place of KEY.
func commandOn(command, key string) (args []any) {
	for word := range strings.FieldsSeq(command) {
		if word == "KEY" {
			word = key
		}
		args = append(args, word)
	}
	return args
}

// discarded queues commands in a transaction and discards the transaction. It returns an error of
// the connection, of MULTI or of DISCARD, but no errors of the commands.
func discarded(ctx context.Context, server *redis.Client, queue func(redis.Pipeliner)) error {
	pipe := server.Pipeline()
	begin := pipe.Do(ctx, "multi")
	queue(pipe)
	end := pipe.Do(ctx, "discard")
	_, err := pipe.Exec(ctx)
	if _, reply := errors.AsType[redis.Error](err); err != nil && !reply {
		return err
	}
	return errors.Join(begin.Err(), end.Err())
}

// denial returns the error for commands or keys that the user is not allowed to use, or nil if
// there are none.
func denial(commands []string, keys bool) error {
	var faults []string
	if len(commands) > 0 {
		faults = append(faults, "its user may not run "+strings.Join(commands, ", "))
	}
	if keys {
		faults = append(faults, "its user may not use the crawl's keys: want the patterns ~crawler:* and ~{*}*")
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrServer, strings.Join(faults, ", and "))
}
