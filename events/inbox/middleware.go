package inbox

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Middleware returns a function that wraps handlers, so that they run once per event. Events
// can have any Go type. The function key returns the id of an event (see Once).
//
//	once := inbox.Middleware(box, func(o Order) (string, error) { return o.ID, nil })
//	handle = once(handle)
//
// The handler writes through the transaction that Tx returns. The wrapped handler returns
// the error of Once. It returns nil if the event was handled before.
func Middleware[E any](i *Inbox, key func(E) (string, error)) func(next func(context.Context, E) error) func(context.Context, E) error {
	return func(next func(context.Context, E) error) func(context.Context, E) error {
		return func(ctx context.Context, event E) error {
			id, err := key(event)
			if err != nil {
				return err
			}
			_, err = i.Once(ctx, id, func(ctx context.Context, tx pgx.Tx) error {
				return next(context.WithValue(ctx, txKey{}, tx), event)
			})
			return err
		}
	}
}

// txKey is the key of the transaction in the context of a handler.
type txKey struct{}

// Tx returns the transaction of a handler that Middleware has wrapped. ctx is the context of
// the handler. Tx panics if ctx has no transaction.
func Tx(ctx context.Context) pgx.Tx {
	tx, ok := ctx.Value(txKey{}).(pgx.Tx)
	if !ok {
		panic("inbox: Tx was called outside of a handler that Middleware made")
	}
	return tx
}
