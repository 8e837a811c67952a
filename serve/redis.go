package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/serve/idempotency"
	"github.com/bloomfrontier/crawler/serve/idempotency/postgres"
)

var (
	// ErrLeaseHeld is returned by New if another Server uses the Redis.
	ErrLeaseHeld = errors.New("serve: another server uses this Redis")
	// ErrLeaseLost is returned by Server.Run if another Server has begun to use the Redis.
	ErrLeaseLost = errors.New("serve: another server has begun to use this Redis")
)

var (
	//go:embed lease.lua
	leaseLua string
	//go:embed store.lua
	storeLua string

	leaseScript, storeScript = redis.NewScript(leaseLua), redis.NewScript(storeLua)
)

// Keys in Redis. They have one hash tag, so one script can check the lease and write any of them.
const (
	leaseKey     = "{crawler-serve}:lease"   // hash: see lease.lua
	cardsKey     = "{crawler-serve}:cards"   // hash: name of a crawl → its card
	noteKey      = "{crawler-serve}:note:"   // then the key of the note
	answerKey    = "{crawler-serve}:answer:" // then an ID in hexadecimal digits
	answerSchema = "crawler_serve"           // of the answers in Postgres
)

const (
	leaseTime   = 10 * time.Second
	replicaTime = 5 * time.Second // in which the replicas must confirm a write
)

// sharedLedger is a ledger in Redis. One Server uses it at a time, under a lease. Each Server that takes the lease begins a new term, and
// each write checks that its term is still the present one.
type sharedLedger struct {
	client redis.UniversalClient
	holder string
	term   int64
	wait   int // replicas that must confirm a write
	log    *slog.Logger
	pool   *pgxpool.Pool // of the answers, if they are in Postgres
	rows   *postgres.Store

	mu       sync.Mutex
	until    time.Time // the lease is valid until then
	underWay map[idempotency.ID]bool

	stop    context.CancelFunc
	stopped chan struct{} // closed when the lease is no longer extended
	lost    chan struct{} // closed when another term has begun
}

// openShared waits until no other Server has the lease, and takes it. The holder is the identity of this Server, also after a crash:
// its earlier lease does not keep it waiting.
func openShared(ctx context.Context, cfg *Config, holder string) (_ *sharedLedger, err error) {
	options, err := redisstore.Options(cfg.Redis.URL, cfg.Redis.Password, cfg.Redis.CAFile)
	if err != nil {
		return nil, fmt.Errorf("serve: Config.Redis: %w", err)
	}
	l := &sharedLedger{
		client: redis.NewUniversalClient(options), holder: holder, wait: cfg.Settings.RedisWait, log: cfg.Logger, underWay: make(map[idempotency.ID]bool),
		stopped: make(chan struct{}), lost: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.closeClients())
		}
	}()
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	if cfg.Postgres != nil {
		if err := l.openRows(ctx, cfg.Postgres); err != nil {
			return nil, err
		}
	}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	go l.keep(ctx)
	return l, nil
}

// openRows opens the answers in Postgres.
func (l *sharedLedger) openRows(ctx context.Context, p *crawl.Postgres) error {
	dsn, err := p.DSN()
	if err != nil {
		return err
	}
	options, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return errors.New("serve: the URL of Postgres is not valid") // the error could show a secret
	}
	options.MaxConns = max(options.MaxConns, 16)
	if l.pool, err = pgxpool.NewWithConfig(ctx, options); err != nil {
		return err
	}
	cfg := postgres.Config{DB: l.pool, Schema: answerSchema}
	if !p.NoMigrate {
		if err := postgres.Migrate(ctx, cfg); err != nil {
			return err
		}
	}
	l.rows, err = postgres.Open(ctx, cfg)
	return err
}

// take takes the lease. It waits twice as long as a lease for one that is not extended.
func (l *sharedLedger) take(ctx context.Context) error {
	for begun := time.Now(); ; {
		left, err := l.lease(ctx, leaseTime)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrLeaseLost):
			return err
		case time.Since(begun) > 2*leaseTime:
			return ErrLeaseHeld
		}
		l.log.Info("waiting for the lease of another server", slog.Duration("left", left))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(left, time.Second) + 10*time.Millisecond):
		}
	}
}

// lease takes or extends the lease for a time; 0 ends it. If another Server has it, the error is ErrLeaseLost, and left is how long.
func (l *sharedLedger) lease(ctx context.Context, ttl time.Duration) (left time.Duration, err error) {
	begun := time.Now()
	got, err := leaseScript.Run(ctx, l.client, []string{leaseKey}, l.holder, ttl.Milliseconds(), l.term).Int64Slice()
	if err != nil {
		return 0, unavailable(err)
	}
	if got[0] == 0 {
		return time.Duration(got[1]) * time.Millisecond, ErrLeaseLost
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until = begun.Add(ttl); l.term == 0 {
		l.term = got[0]
	}
	return 0, nil
}

// keep extends the lease until ctx ends or another term has begun.
func (l *sharedLedger) keep(ctx context.Context) {
	defer close(l.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(leaseTime / 4):
		}
		limited, cancel := context.WithTimeout(ctx, leaseTime/4)
		_, err := l.lease(limited, leaseTime)
		cancel()
		if errors.Is(err, ErrLeaseLost) {
			close(l.lost)
			return
		}
	}
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", frontier.ErrUnavailable, err) }

func (l *sharedLedger) valid(ctx context.Context) error {
	l.mu.Lock()
	over := time.Now().After(l.until)
	l.mu.Unlock()
	if over {
		return unavailable(errors.New("the lease of this server could not be extended"))
	}
	term, err := l.client.HGet(ctx, leaseKey, "term").Int64()
	if err == nil && term != l.term {
		err = ErrLeaseLost
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// write executes store.lua, and waits for the replicas.
func (l *sharedLedger) write(ctx context.Context, key string, args ...any) error {
	node, _ := l.client.(*redis.Client)
	if cluster, is := l.client.(*redis.ClusterClient); is {
		var err error
		if node, err = cluster.MasterForKey(ctx, key); err != nil {
			return unavailable(err)
		}
	}
	conn := node.Conn() // WAIT counts the writes of its own connection
	defer func() { _ = conn.Close() }()
	wrote, err := storeScript.Run(ctx, conn, []string{leaseKey, key}, append([]any{l.term}, args...)...).Int()
	if err == nil && wrote == 0 {
		err = ErrLeaseLost
	}
	if err == nil && l.wait > 0 {
		var n int64
		if n, err = conn.Wait(ctx, l.wait, replicaTime).Result(); err == nil && n < int64(l.wait) {
			err = fmt.Errorf("%d replicas have confirmed, want %d", n, l.wait)
		}
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

func (l *sharedLedger) cards(ctx context.Context) (map[string][]byte, error) {
	found, err := l.client.HGetAll(ctx, cardsKey).Result()
	if err != nil {
		return nil, unavailable(err)
	}
	all := make(map[string][]byte)
	for name, card := range found {
		all[name] = []byte(card)
	}
	return all, nil
}

func (l *sharedLedger) putCard(ctx context.Context, name string, card []byte) error {
	if card == nil {
		return l.write(ctx, cardsKey, "HDEL", name)
	}
	return l.write(ctx, cardsKey, "HSET", name, card)
}

func (l *sharedLedger) note(ctx context.Context, key string) ([]byte, error) {
	return l.get(ctx, noteKey+key)
}

func (l *sharedLedger) get(ctx context.Context, key string) ([]byte, error) {
	value, err := l.client.Get(ctx, key).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, unavailable(err)
	}
	return value, nil
}

func (l *sharedLedger) putNote(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return l.write(ctx, noteKey+key, "SET", value, ttl.Milliseconds())
}

// sweep does nothing, because Redis removes what has expired.
func (l *sharedLedger) sweep(context.Context) error { return nil }

func (l *sharedLedger) close() error {
	l.stop()
	<-l.stopped
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = l.lease(ctx, 0) // it would end by itself
	return l.closeClients()
}

func (l *sharedLedger) closeClients() error {
	if l.pool != nil {
		l.pool.Close()
	}
	return l.client.Close()
}

func (l *sharedLedger) answers() idempotency.Store {
	if l.rows != nil {
		return l.rows
	}
	return redisAnswers{l}
}

// redisAnswers is the idempotency.Store of a sharedLedger. It has no transaction: handlers have an effect that they find again
// if they are called once more, and the answer is stored after the effect. Which requests are under way is kept in memory,
// because only one Server uses the ledger.
type redisAnswers struct{ *sharedLedger }

var _ idempotency.Store = redisAnswers{}

// storedAnswer is the value of an answer.
type storedAnswer struct {
	Digest []byte              `json:"digest,omitempty"`
	Answer *idempotency.Answer `json:"answer,omitempty"` // nil in a slot of an issued key
}

// Do implements idempotency.Store.
func (a redisAnswers) Do(ctx context.Context, r idempotency.Request, effect func(context.Context) idempotency.Result) (*idempotency.Answer, error) {
	if !a.begin(r.ID) {
		return nil, idempotency.ErrUnderWay
	}
	defer a.end(r.ID)
	key := answerKey + hex.EncodeToString(r.ID[:])
	value, err := a.get(ctx, key)
	if err != nil {
		return nil, err
	}
	var found storedAnswer
	if value != nil {
		if err := json.Unmarshal(value, &found); err != nil {
			return nil, fmt.Errorf("serve: stored answer: %w", err)
		}
	}
	switch {
	case found.Answer != nil && !bytes.Equal(found.Digest, r.Digest[:]):
		return nil, idempotency.ErrOtherPayload
	case found.Answer != nil:
		return found.Answer, nil
	case r.Issued && value == nil:
		return nil, idempotency.ErrUnknownKey
	}
	crash.Point("idempotency started")
	result := effect(ctx)
	crash.Point("idempotency effect")
	if result.Answer == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replicaTime)
	defer cancel()
	crash.Point("idempotency answer")
	err = a.put(ctx, r.ID, storedAnswer{r.Digest[:], result.Answer}, r.TTL)
	crash.Point("idempotency committed")
	return nil, err
}

func (l *sharedLedger) begin(id idempotency.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.underWay[id]
	l.underWay[id] = true
	return !before
}

func (l *sharedLedger) end(id idempotency.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.underWay, id)
}

func (a redisAnswers) put(ctx context.Context, id idempotency.ID, s storedAnswer, ttl time.Duration) error {
	value, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return a.write(ctx, answerKey+hex.EncodeToString(id[:]), "SET", value, ttl.Milliseconds())
}

// Reserve implements idempotency.Store.
func (a redisAnswers) Reserve(ctx context.Context, id idempotency.ID, ttl time.Duration) (time.Time, error) {
	expires := time.Now().Add(ttl)
	return expires, a.put(ctx, id, storedAnswer{}, ttl)
}

// Sweep implements idempotency.Store. Redis removes what has expired.
func (redisAnswers) Sweep(context.Context, int) (int, error) { return 0, nil }

// Stats implements idempotency.Store.
func (a redisAnswers) Stats(ctx context.Context) (idempotency.Stats, error) {
	return idempotency.Stats{}, a.valid(ctx)
}

// newHolder returns a new identity of a Server.
func newHolder() string { return rand.Text() + "-" + strconv.FormatInt(time.Now().Unix(), 36) }
