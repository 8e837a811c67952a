package idempotency

import (
	"context"
	"errors"
	"net/http"
	"time"
)

var (
	// ErrUnderWay is returned by Store.Do while another request with the same ID is under way.
	ErrUnderWay = errors.New("idempotency: the first request with this key is under way")
	// ErrOtherPayload is returned by Store.Do if the stored answer belongs to another digest.
	ErrOtherPayload = errors.New("idempotency: the key was used with another payload")
	// ErrUnknownKey is returned by Store.Do for an issued key whose slot is missing or expired.
	ErrUnknownKey = errors.New("idempotency: the server did not issue this key, or it has expired")
)

// ID selects the row of a request: a hash of caller, method, path and key. For an issued key
// it is a hash of caller and key, and method and path are part of the digest.
type ID [32]byte

// Request is what a Store knows about a request.
type Request struct {
	ID     ID
	Digest [32]byte      // SHA-256 of the payload
	Issued bool          // the key has the form of issued keys: without a slot, Do returns ErrUnknownKey
	TTL    time.Duration // how long the answer is kept
}

// Answer is the stored part of an answer. Its header has only the fields that a replay repeats.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Result says how Store.Do ends the transaction of an effect.
type Result struct {
	Commit bool    // commit the writes of the effect; otherwise they are undone
	Answer *Answer // store this answer; nil stores none
}

// Stats are numbers of a Store.
type Stats struct {
	// SweepLag is the time since the oldest row that is not deleted yet has expired; 0 if
	// there is none.
	SweepLag time.Duration
}

// Store keeps answers, and runs effects in transactions. Package idempotencytest has the tests
// that every Store must pass. A Store is safe for concurrent use.
type Store interface {
	// Do returns the stored answer of r.ID, if there is one that has not expired. It returns
	// ErrOtherPayload if that answer belongs to another digest. Otherwise it calls effect in a
	// transaction, and returns nil and nil when the Result is durable. The context that effect
	// gets contains the transaction.
	//
	// Of the calls with one ID at a time, one calls effect. The others return ErrUnderWay at
	// once. If effect panics, or the process ends, the transaction is undone, and no trace of
	// the request stays. After other errors, the transaction was undone, or its outcome is
	// unknown: a repeat of the request finds it out.
	//
	// Only the effect is bound to the end of ctx. When effect has returned, Do takes at most 5 s.
	Do(ctx context.Context, r Request, effect func(ctx context.Context) Result) (replay *Answer, err error)
	// Reserve stores a slot for an issued key, and returns when the slot will expire.
	Reserve(ctx context.Context, id ID, ttl time.Duration) (expires time.Time, err error)
	// Sweep deletes at most limit expired rows, oldest first, and returns their number. It
	// deletes no row that has not expired, also while other calls run.
	Sweep(ctx context.Context, limit int) (deleted int, err error)
	// Stats returns the numbers of the store.
	Stats(ctx context.Context) (Stats, error)
}

// Sweep deletes the expired rows of a store every so often (0 means 1 minute) in batches of 500,
// until ctx ends. Between batches it pauses three times as long as the batch took. It only keeps
// the store small: expired rows have no effect. Several processes can call it at the same time.
// It returns nil after ctx has ended, or the error of the store. After an error, call it again
// later.
func Sweep(ctx context.Context, store Store, every time.Duration) error {
	const batch = 500
	if every <= 0 {
		every = time.Minute
	}
	for {
		started := time.Now()
		deleted, err := store.Sweep(ctx, batch)
		pause := every
		if deleted == batch {
			pause = 3 * time.Since(started)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}
