// Package redisonly is an inbox that needs only Redis, for consumers without a database. It
// promises less than package inbox, because Redis and the effects of a handler have no
// common transaction.
//
// Once takes a lease on the event (SET NX with an expiry), runs the handler, and confirms
// the event when the handler has succeeded. From then on repeats are duplicates until the
// window ends. While another delivery holds the lease, Once returns ErrBusy.
//
// A handler can run again after it has succeeded in these cases:
//
//   - The process ends, or Redis becomes unavailable, between the handler and the confirmation.
//   - The handler takes longer than the lease. Then its context ends, but its effects
//     stay, and another delivery can run at the same time.
//   - Redis loses the key by a flush, an eviction, a crash without an append-only file, or
//     a failover to a replica that did not have the key yet.
//
// An event is lost only if a delivery is acknowledged although Once returned neither Done
// nor Duplicate. Do not acknowledge after ErrBusy, because the delivery that holds the lease
// can still fail.
package redisonly

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/events/inbox"
)

var (
	// ErrBusy reports that another delivery of the event has the lease. That delivery is
	// being handled, or its process has ended and its lease has not expired yet. The event
	// must be delivered again later.
	ErrBusy = errors.New("redisonly: another delivery of the event holds its lease")
	// ErrUnconfirmed is returned together with Done. The handler has succeeded, but the
	// confirmation in Redis failed, so a repeat runs the handler again. The event can be
	// acknowledged.
	ErrUnconfirmed = errors.New("redisonly: the handler succeeded, but its event is not confirmed")
)

// Config configures an Inbox. Redis and Group are required.
type Config struct {
	Redis redis.UniversalClient
	// Group is the name of the consumers that share the events. It must not contain a
	// colon. Each group handles every event.
	Group string
	// Window is how long repeats are recognised after the handler of an event has
	// succeeded; 0 means 24 hours.
	Window time.Duration
	// Lease is how long a handler is allowed to take; 0 means 1 minute.
	Lease time.Duration
	// Prefix is the beginning of all keys; empty means "inbox-only:".
	Prefix string
}

// Inbox remembers which events a group has handled. It is safe for concurrent use.
type Inbox struct{ cfg Config }

// New returns an inbox. It does not connect.
func New(cfg Config) (*Inbox, error) {
	var errs []error
	if cfg.Redis == nil {
		errs = append(errs, errors.New("redisonly: Config.Redis is nil"))
	}
	if cfg.Group == "" || strings.Contains(cfg.Group, ":") {
		errs = append(errs, fmt.Errorf("redisonly: Config.Group is %q, want a name without a colon", cfg.Group))
	}
	if cfg.Window < 0 || cfg.Lease < 0 {
		errs = append(errs, fmt.Errorf("redisonly: Window is %v and Lease %v, want 0 or more", cfg.Window, cfg.Lease))
	}
	cfg.Window, cfg.Lease = cmp.Or(cfg.Window, 24*time.Hour), cmp.Or(cfg.Lease, time.Minute)
	cfg.Prefix = cmp.Or(cfg.Prefix, "inbox-only:")
	return &Inbox{cfg}, errors.Join(errs...)
}

var (
	//go:embed confirm.lua
	confirmLua string
	confirm    = redis.NewScript(confirmLua)

	//go:embed release.lua
	releaseLua string
	release    = redis.NewScript(releaseLua)
)

// done is the value of the key of a confirmed event. Other values are leases.
const done = "done"

// Once calls the function handle unless the group has handled the event with this id within
// the window, and returns inbox.Done or inbox.Duplicate. handle must return when its ctx
// ends. The ctx ends with the lease at the latest.
//
// If handle returns an error or panics, the lease is given back, and Once returns the
// error or an *inbox.PanicError.
func (i *Inbox) Once(ctx context.Context, id string, handle func(ctx context.Context) error) (inbox.Result, error) {
	key := i.cfg.Prefix + i.cfg.Group + ":" + id
	token := "lease:" + rand.Text()
	deadline := time.Now().Add(i.cfg.Lease)
	known, err := i.take(ctx, key, token)
	if err != nil {
		return 0, fmt.Errorf("redisonly: event %q of group %q: %w", id, i.cfg.Group, err)
	}
	if known {
		return inbox.Duplicate, nil
	}
	err = func() error {
		ctx, cancel := context.WithDeadlineCause(ctx, deadline, fmt.Errorf("the handler took longer than its lease of %v", i.cfg.Lease))
		defer cancel()
		return catchPanic(ctx, handle)
	}()
	// The result of the handler is sent to Redis even if ctx has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err != nil {
		_ = release.Run(ctx, i.cfg.Redis, []string{key}, token).Err() // if this fails, the lease expires later
		return 0, fmt.Errorf("redisonly: event %q of group %q: %w", id, i.cfg.Group, err)
	}
	confirmed, err := confirm.Run(ctx, i.cfg.Redis, []string{key}, token, done, i.cfg.Window.Milliseconds()).Bool()
	if err == nil && !confirmed {
		err = errors.New("another delivery has taken the lease over")
	}
	if err != nil {
		return inbox.Done, fmt.Errorf("%w: event %q of group %q: %w", ErrUnconfirmed, id, i.cfg.Group, err)
	}
	return inbox.Done, nil
}

// take takes the lease, or reports that the event was handled before.
func (i *Inbox) take(ctx context.Context, key, token string) (known bool, err error) {
	err = i.cfg.Redis.SetArgs(ctx, key, token, redis.SetArgs{Mode: "NX", TTL: i.cfg.Lease}).Err()
	if !errors.Is(err, redis.Nil) {
		return false, err
	}
	holder, err := i.cfg.Redis.Get(ctx, key).Result()
	switch {
	case err != nil && !errors.Is(err, redis.Nil):
		return false, err
	case holder == done:
		return true, nil
	case holder == token: // the client repeated a SET whose answer was lost
		return false, nil
	}
	return false, ErrBusy
}

// catchPanic calls handle, and returns a panic of handle as an *inbox.PanicError.
func catchPanic(ctx context.Context, handle func(context.Context) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &inbox.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return handle(ctx)
}
