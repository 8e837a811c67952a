package inbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// TestMiddleware: a wrapped handler takes effect once per event, although its first call
// fails. The handler writes in the transaction that marks the event as handled.
func TestMiddleware(t *testing.T) {
	t.Parallel()
	pool := database(t)
	type order struct{ id string }
	noKey := errors.New("no key")
	once := inbox.Middleware(open(t, pool), func(o order) (string, error) {
		if o.id == "" {
			return "", noKey
		}
		return o.id, nil
	})
	calls := 0
	handle := once(func(ctx context.Context, o order) error {
		if err := effect(ctx, inbox.Tx(ctx), o.id); err != nil {
			return err
		}
		if calls++; calls == 1 {
			return errHandler
		}
		return nil
	})
	if err := handle(t.Context(), order{"k"}); !errors.Is(err, errHandler) {
		t.Errorf("the handler failed, and its caller got the error %v, want that of the handler", err)
	}
	for range 3 {
		must(t, handle(t.Context(), order{"k"}))
	}
	wantEffects(t, pool, "k", 1)
	if calls != 2 {
		t.Errorf("the handler was called %d times, want 2", calls)
	}
	if err := handle(t.Context(), order{}); !errors.Is(err, noKey) {
		t.Errorf("an event without a key: error %v, want that of the key function", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Tx outside of a handler did not panic")
		}
	}()
	inbox.Tx(t.Context())
}

func TestCloudEvent(t *testing.T) {
	const document = `{"specversion":"1.0","source":"urn:crawler:1","id":"0a-3","type":"page.done","data":{"url":"http://a/"}}`
	e, err := inbox.CloudEvent([]byte(document))
	if err != nil || e.ID != "urn:crawler:1 0a-3" || e.Type != "page.done" || string(e.Data) != document {
		t.Errorf("CloudEvent = %+v, %v; want the source and the id as ID, the type, and the document as data", e, err)
	}
	for _, document := range []string{
		``, `[]`, `{}`, `{"specversion":"0.3","source":"s","id":"i","type":"t"}`, `{"specversion":"1.0","source":"s","id":"i"}`,
		`{"specversion":"1.0","source":"s","id":"","type":"t"}`, `{"specversion":"1.0","source":"a b","id":"i","type":"t"}`,
		`{"specversion":"1.0","source":"s","id":7,"type":"t"}`, `{"specversion":"1.0","source":"s","id":"\u0000","type":"t"}`,
	} {
		if e, err := inbox.CloudEvent([]byte(document)); !errors.Is(err, inbox.ErrInvalid) {
			t.Errorf("CloudEvent(%s) = %+v, %v; want ErrInvalid", document, e, err)
		}
	}
}
