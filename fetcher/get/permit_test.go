package get

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
)

// TestPermitBeforeWriting: if Permit returns an error after a call of Sent, which may have
// waited, nothing is sent. This holds for new connections and for reused ones. The next request
// can use the same connection or another one.
func TestPermitBeforeWriting(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	handler := func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		page("here")(w, r)
	}
	plain := serve(t, handler)
	server, secured := secure(t, handler)
	both, tapped := secured, Config{Capture: true}
	both.Capture = true
	over := errors.New("it is over")
	for name, at := range map[string]struct {
		config Config
		url    string
	}{
		"plain":         {Config{}, plain},
		"plain, tapped": {tapped, plain},
		"TLS":           {secured, server.URL},
		"TLS, tapped":   {both, server.URL},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, at.config)
			for _, connection := range []string{"new", "kept"} {
				before := requests.Load()
				sent := false // needs no lock, because the calls of Sent and Permit do not overlap
				_, err := c.Get(t.Context(), Request{URL: at.url, Sent: func() { sent = true }, Permit: func() error {
					if sent {
						return over
					}
					return nil
				}})
				if !errors.Is(err, ErrAborted) || !errors.Is(err, over) || !Classify(err).Aborted {
					t.Errorf("%s connection: %v, want ErrAborted and the error of Permit", connection, err)
				}
				if n := requests.Load() - before; n != 0 {
					t.Errorf("%s connection: %d requests were sent, want 0", connection, n)
				}
				always := 0
				mustGet(t, c, Request{URL: at.url, Permit: func() error { always++; return nil }}).Release()
				if n := requests.Load() - before; n != 1 || always < 2 {
					t.Errorf("%s connection: %d requests, want 1; Permit was called %d times, want at least 2",
						connection, n, always)
				}
			}
			if _, err := c.Get(t.Context(), Request{URL: at.url, Permit: func() error { return over }}); !errors.Is(err, over) {
				t.Errorf("Get: %v, want the error of Permit", err)
			}
		})
	}
}
