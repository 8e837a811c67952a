package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// SentinelMaster is the name under which Sentinels watch the primary.
const SentinelMaster = "crawls"

// Sentinels are a primary, its replica, and three Sentinels that watch them. Two Sentinels must agree that the primary is
// down; it is down after half a second without an answer. Its methods are safe for concurrent use.
type Sentinels struct {
	Servers   []*RedisServer // the first primary and its replica
	Sentinels []*SentinelServer
}

// SentinelServer is a redis-server that runs as a Sentinel. Its methods are safe for concurrent use.
type SentinelServer struct {
	process
	primary  *RedisServer
	password string // empty means that clients need none
	client   *redis.SentinelClient
}

// RedisSentinels starts Sentinels that are closed at the end of the test, and returns when each of them knows the others
// and the replica. Clients of the Sentinels need the given password, unless it is empty. If redis-server is not installed, the test is skipped. If CRAWLER_TEST_SERVERS is "require", it fails
// instead.
func RedisSentinels(t TB, opt RedisOptions, password string) *Sentinels {
	t.Helper()
	config := map[string]string{"repl-diskless-sync-delay": "0"}
	maps.Copy(config, opt.Config)
	opt.Config = maps.Clone(config)
	primary := Redis(t, opt)
	config["replicaof"] = strings.ReplaceAll(primary.Addr(), ":", " ")
	opt.Config = config
	s := &Sentinels{Servers: []*RedisServer{primary, Redis(t, opt)}}
	for range 3 {
		s.Sentinels = append(s.Sentinels, started(t, &SentinelServer{primary: primary, password: password}))
	}
	if err := s.awaitQuorum(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *SentinelServer) begin(ctx context.Context) error {
	path, err := program("redis-server")
	if err != nil {
		return err
	}
	if s.run, err = os.MkdirTemp("", "sentinel-"); err != nil {
		return err
	}
	config := s.file("sentinel.conf") // the Sentinel also writes it
	s.command = func() *exec.Cmd { return exec.Command(path, config, "--sentinel") }
	s.ready, s.stop = func(ctx context.Context) error { return s.client.Ping(ctx).Err() }, syscall.SIGTERM
	return s.launch(ctx, func() error {
		if s.client != nil {
			_ = s.client.Close()
		}
		s.client = redis.NewSentinelClient(&redis.Options{
			Addr: s.Addr(), Password: s.password, MaxRetries: -1, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		host, port, _ := strings.Cut(s.primary.Addr(), ":")
		text := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %q\nsentinel monitor %[3]s %s %s 2\nsentinel auth-user %[3]s %[6]s\n"+
			"sentinel auth-pass %[3]s none\nsentinel down-after-milliseconds %[3]s 500\nsentinel failover-timeout %[3]s 3000\n",
			s.port, s.run, SentinelMaster, host, port, adminUser)
		if s.password != "" {
			text += fmt.Sprintf("requirepass %[1]s\nsentinel sentinel-pass %[1]s\n", s.password)
		}
		return os.WriteFile(config, []byte(text), 0o600)
	})
}

// Close kills the Sentinel and removes its files. A second Close does nothing.
func (s *SentinelServer) Close() error {
	err := s.process.Close()
	if s.client != nil {
		if closed := s.client.Close(); !errors.Is(closed, redis.ErrClosed) {
			err = errors.Join(err, closed)
		}
	}
	return err
}

// URL returns the URL of the Sentinels for clients of the primary. It contains the password, if they have one.
func (s *Sentinels) URL() string {
	var addrs []string
	for _, each := range s.Sentinels {
		addrs = append(addrs, each.Addr())
	}
	at := "redis+sentinel://" + strings.Join(addrs, ",") + "/" + SentinelMaster
	if password := s.Sentinels[0].password; password != "" {
		at += "?sentinel_password=" + url.QueryEscape(password)
	}
	return at
}

// Primary returns the server that is the primary according to a Sentinel.
func (s *Sentinels) Primary(ctx context.Context) (*RedisServer, error) {
	addr, err := s.Sentinels[0].client.GetMasterAddrByName(ctx, SentinelMaster).Result()
	if err != nil {
		return nil, err
	}
	for _, server := range s.Servers {
		if server.Addr() == strings.Join(addr, ":") {
			return server, nil
		}
	}
	return nil, fmt.Errorf("%q is none of the servers", addr)
}

// FailOver kills the primary with SIGKILL, and waits until the replica is the primary. It returns the old primary.
func (s *Sentinels) FailOver(ctx context.Context) (old *RedisServer, err error) {
	if old, err = s.Primary(ctx); err != nil {
		return nil, err
	}
	next := s.Servers[0]
	if next == old {
		next = s.Servers[1]
	}
	if err := old.Kill(); err != nil {
		return nil, err
	}
	return old, poll(ctx, func() error {
		now, err := s.Primary(ctx)
		if err == nil && now != next {
			err = errors.New("the Sentinels have not replaced the primary")
		}
		return err
	})
}

// Rejoin restarts a primary that FailOver killed, and returns when it is a replica with all data.
func (s *Sentinels) Rejoin(ctx context.Context, old *RedisServer) error {
	if err := old.Restart(); err != nil {
		return err
	}
	err := poll(ctx, func() error { // at first it is a primary again
		if role, err := old.Info("replication", "role"); err != nil || role == "master" {
			return errors.Join(err, errors.New("the old primary is no replica yet"))
		}
		return checkLink(old)
	})
	return errors.Join(err, s.awaitQuorum(ctx))
}

// awaitQuorum waits until each Sentinel knows the replica and the other Sentinels, and the replica is linked to its primary.
func (s *Sentinels) awaitQuorum(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return poll(ctx, func() error {
		for _, server := range s.Servers {
			if err := checkLink(server); err != nil {
				return err
			}
		}
		for _, each := range s.Sentinels {
			known, err := each.client.Master(ctx, SentinelMaster).Result()
			if err != nil {
				return err
			}
			if known["num-slaves"] != "1" || known["num-other-sentinels"] != "2" || known["flags"] != "master" {
				return fmt.Errorf("a Sentinel knows %s replicas and %s Sentinels; the primary is %s",
					known["num-slaves"], known["num-other-sentinels"], known["flags"])
			}
		}
		return nil
	})
}
