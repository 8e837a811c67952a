package inbox

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Middleware makes handlers of events of any type run once per event. Key returns
// the id of an event: see Once.
//
//	once := inbox.Middleware(box, func(o Order) (string, error) { return o.ID, nil })
//	handle = once(handle)
//
// The handler writes through the transaction that Tx returns. A handler that it
// returns gives nil for an event that was handled before, and the error of Once
// otherwise.
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

// Tx returns the transaction in which a handler below Middleware writes. It panics
// if ctx is not from such a handler.
func Tx(ctx context.Context) pgx.Tx {
	tx, ok := ctx.Value(txKey{}).(pgx.Tx)
	if !ok {
		panic("inbox: Tx was called outside of a handler that Middleware made")
	}
	return tx
}
