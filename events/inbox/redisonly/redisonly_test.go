package redisonly_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/events/inbox/redisonly"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// childVariable names the environment variable of a child process. The variable has the
// address of a Redis server. The child handles an event with this server, and the handler
// kills the child.
const childVariable = "REDISONLY_TEST_CHILD"

func TestMain(m *testing.M) {
	if addr := os.Getenv(childVariable); addr != "" {
		client := redis.NewClient(&redis.Options{Addr: addr})
		i, err := redisonly.New(redisonly.Config{Redis: client, Group: "mail"})
		if err == nil {
			_, err = i.Once(context.Background(), "k", func(ctx context.Context) error {
				if err := client.Incr(ctx, "effect").Err(); err != nil {
					return err
				}
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			})
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bench is an inbox with its Redis server. The key "effect" in Redis counts the effects of
// the handler.
type bench struct {
	*redisonly.Inbox
	client *redis.Client
	server *servers.RedisServer
}

func open(t *testing.T, change ...func(*redisonly.Config)) bench {
	t.Helper()
	server := servers.Redis(t, servers.RedisOptions{})
	options, err := redis.ParseURL(server.URL())
	must(t, err)
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	cfg := redisonly.Config{Redis: client, Group: "mail"}
	for _, f := range change {
		f(&cfg)
	}
	i, err := redisonly.New(cfg)
	must(t, err)
	return bench{i, client, server}
}

func (b bench) effect(ctx context.Context) error { return b.client.Incr(ctx, "effect").Err() }

func (b bench) deliver(t *testing.T, want inbox.Result) {
	t.Helper()
	if got, err := b.Once(t.Context(), "k", b.effect); got != want || err != nil {
		t.Errorf("Once = %v, %v; want %v", got, err, want)
	}
}

func (b bench) wantEffects(t *testing.T, want int) {
	t.Helper()
	if n, err := b.client.Get(t.Context(), "effect").Int(); n != want && !(want == 0 && errors.Is(err, redis.Nil)) {
		t.Errorf("%d effects (%v), want %d", n, err, want)
	}
}

// expire deletes the lease, as if its time were over.
func (b bench) expire(t *testing.T) {
	t.Helper()
	if n, err := b.client.Del(t.Context(), "inbox-only:mail:k").Result(); n != 1 || err != nil {
		t.Errorf("the key of the lease does not exist (%v)", err)
	}
}

// TestOnce: repeats have no effect. An event whose handler failed is handled by its next
// delivery.
func TestOnce(t *testing.T) {
	t.Parallel()
	for name, delivery := range map[string]func(t *testing.T, b bench){
		"once": func(*testing.T, bench) {},
		"ten in a row": func(t *testing.T, b bench) {
			b.deliver(t, inbox.Done)
			for range 9 {
				b.deliver(t, inbox.Duplicate)
			}
		},
		"the handler fails": func(t *testing.T, b bench) {
			failure := errors.New("no")
			if result, err := b.Once(t.Context(), "k", func(context.Context) error { return failure }); result != 0 || !errors.Is(err, failure) {
				t.Errorf("Once = %v, %v; want the error of the handler", result, err)
			}
		},
		"the handler panics": func(t *testing.T, b bench) {
			_, err := b.Once(t.Context(), "k", func(context.Context) error { panic("no") })
			if panicked, ok := errors.AsType[*inbox.PanicError](err); !ok || !strings.Contains(string(panicked.Stack), "redisonly_test.go") {
				t.Errorf("Once: error %v, want a PanicError with its stack", err)
			}
		},
		"the handler hangs": func(t *testing.T, b bench) {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := b.Once(ctx, "k", func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Once: error %v, want Canceled", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			delivery(t, b)
			if _, err := b.Once(t.Context(), "k", b.effect); err != nil {
				t.Error(err)
			}
			b.deliver(t, inbox.Duplicate)
			b.wantEffects(t, 1)
		})
	}
}

// TestParallel: if ten deliveries run at the same time, one of them runs the handler. The
// others return ErrBusy meanwhile.
func TestParallel(t *testing.T) {
	t.Parallel()
	b := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var over sync.WaitGroup
	var done atomic.Int32
	for range 10 {
		over.Go(func() {
			for {
				result, err := b.Once(ctx, "k", b.effect)
				if result == inbox.Done {
					done.Add(1)
				}
				if !errors.Is(err, redisonly.ErrBusy) {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	over.Wait()
	if done.Load() != 1 {
		t.Errorf("%d deliveries returned Done, want 1", done.Load())
	}
	b.wantEffects(t, 1)
}

// TestWindow: repeats are duplicates until the window ends. A lease expires by itself.
func TestWindow(t *testing.T) {
	t.Parallel()
	b := open(t, func(c *redisonly.Config) { c.Window, c.Lease = time.Hour, time.Minute })
	var lease time.Duration
	_, err := b.Once(t.Context(), "k", func(ctx context.Context) (err error) {
		lease, err = b.client.PTTL(ctx, "inbox-only:mail:k").Result()
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Minute {
			t.Errorf("the context of the handler ends at %v, want an end within a minute", deadline)
		}
		return err
	})
	must(t, err)
	window, err := b.client.PTTL(t.Context(), "inbox-only:mail:k").Result()
	must(t, err)
	if lease > time.Minute || lease < 30*time.Second || window > time.Hour || window < 50*time.Minute {
		t.Errorf("the key has a TTL of %v during the lease and of %v after it, want about 1m and 1h", lease, window)
	}
}

// TestRepeats tests the cases in which a handler can run again (see the package comment). It
// also tests what Once does if its lease is lost or was taken over by another delivery.
func TestRepeats(t *testing.T) {
	t.Parallel()
	t.Run("the process ends before the confirmation", func(t *testing.T) {
		t.Parallel()
		b := open(t)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+b.server.Addr())
		said, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the child process ended with %v, want SIGKILL; it printed %s", err, said)
		}
		b.wantEffects(t, 1)
		if _, err := b.Once(t.Context(), "k", b.effect); !errors.Is(err, redisonly.ErrBusy) {
			t.Errorf("Once during the lease: error %v, want ErrBusy", err)
		}
		b.expire(t)
		b.deliver(t, inbox.Done)
		b.wantEffects(t, 2)
	})
	t.Run("Redis is away at the confirmation", func(t *testing.T) {
		t.Parallel()
		b := open(t)
		result, err := b.Once(t.Context(), "k", func(ctx context.Context) error { return b.server.Kill() })
		if result != inbox.Done || !errors.Is(err, redisonly.ErrUnconfirmed) {
			t.Errorf("Once = %v, %v; want done and ErrUnconfirmed", result, err)
		}
		must(t, b.server.Restart())
		b.deliver(t, inbox.Done)
	})
	t.Run("the handler takes longer than its lease", func(t *testing.T) {
		t.Parallel()
		b := open(t)
		result, err := b.Once(t.Context(), "k", func(ctx context.Context) error {
			b.expire(t)
			if result, err := b.Once(ctx, "k", func(ctx context.Context) error {
				result, err := b.Once(ctx, "k", b.effect) // a third delivery, while the second one holds the lease
				if result != 0 || !errors.Is(err, redisonly.ErrBusy) {
					t.Errorf("the third delivery = %v, %v; want ErrBusy", result, err)
				}
				return b.effect(ctx)
			}); result != inbox.Done || err != nil {
				t.Errorf("the second delivery = %v, %v; want done", result, err)
			}
			return b.effect(ctx)
		})
		if result != inbox.Done || err != nil { // the second has confirmed the event
			t.Errorf("the first delivery = %v, %v; want done", result, err)
		}
		b.wantEffects(t, 2)
		b.deliver(t, inbox.Duplicate)
	})
	t.Run("another delivery has the lease at the confirmation", func(t *testing.T) {
		t.Parallel()
		b := open(t)
		result, err := b.Once(t.Context(), "k", func(ctx context.Context) error {
			b.expire(t)
			return b.client.Set(ctx, "inbox-only:mail:k", "lease:another", 0).Err()
		})
		if result != inbox.Done || !errors.Is(err, redisonly.ErrUnconfirmed) {
			t.Errorf("Once = %v, %v; want done and ErrUnconfirmed", result, err)
		}
		if holder, err := b.client.Get(t.Context(), "inbox-only:mail:k").Result(); holder != "lease:another" {
			t.Errorf("the lease is %q (%v) now, want that of the other delivery, lease:another", holder, err)
		}
	})
	t.Run("a delivery fails after another one got its lease", func(t *testing.T) { // it does not release the other's lease
		t.Parallel()
		b := open(t)
		failure := errors.New("no")
		_, err := b.Once(t.Context(), "k", func(ctx context.Context) error {
			return errors.Join(b.client.Set(ctx, "inbox-only:mail:k", "lease:another", 0).Err(), failure)
		})
		if !errors.Is(err, failure) {
			t.Errorf("Once: error %v, want the error of the handler", err)
		}
		if _, err := b.Once(t.Context(), "k", b.effect); !errors.Is(err, redisonly.ErrBusy) {
			t.Errorf("Once during the lease of the other delivery: error %v, want ErrBusy", err)
		}
	})
	t.Run("Redis loses the key", func(t *testing.T) {
		t.Parallel()
		b := open(t)
		b.deliver(t, inbox.Done)
		must(t, b.client.FlushAll(t.Context()).Err())
		b.deliver(t, inbox.Done)
	})
	t.Run("Redis loses the lease", func(t *testing.T) { // no other delivery takes the lease, so the handler runs once
		t.Parallel()
		b := open(t)
		_, err := b.Once(t.Context(), "k", func(ctx context.Context) error {
			return errors.Join(b.client.FlushAll(ctx).Err(), b.effect(ctx))
		})
		must(t, err)
		b.deliver(t, inbox.Duplicate)
		b.wantEffects(t, 1)
	})
}

// TestLoses: if a caller acknowledges an event after ErrBusy and the delivery that holds the
// lease fails, the event is lost. If the event is delivered again instead, it is not lost.
func TestLoses(t *testing.T) {
	t.Parallel()
	for _, naive := range []bool{true, false} {
		b := open(t)
		var busy error
		_, err := b.Once(t.Context(), "k", func(ctx context.Context) error {
			_, busy = b.Once(ctx, "k", b.effect)
			return errors.New("its process ends, and the broker gives it up")
		})
		if err == nil || !errors.Is(busy, redisonly.ErrBusy) {
			t.Fatalf("the first delivery: error %v, want one; the second: %v, want ErrBusy", err, busy)
		}
		want := 0
		if !naive {
			b.deliver(t, inbox.Done)
			want = 1
		}
		b.wantEffects(t, want)
	}
}

// TestConfig: all faults are reported at once.
func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := redisonly.New(redisonly.Config{Group: "a:b", Lease: -1})
	for _, want := range []string{"Redis", "Group", "Lease"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}
