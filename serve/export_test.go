package serve

import (
	"errors"
	"testing"

	"github.com/bloomfrontier/crawler/events"
)

// SendWebhook sends an event to a URL, as a webhook of a Server with the settings does.
func SendWebhook(t *testing.T, cfg Config, url string) error {
	r, err := newRelays(&fleet{cfg: &cfg})
	if err != nil {
		t.Fatal(err)
	}
	sink, err := r.sink(&storedWebhook{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	return sink.Send(t.Context(), []events.Event{{ID: "1", Data: []byte("{}")}})[0]
}

// TakeLease begins a new term of the lease of a Redis.
func TakeLease(t *testing.T, cfg Config) {
	cfg, err := cfg.check()
	if err != nil {
		t.Fatal(err)
	}
	holder, err := (root{cfg.Root}).holder()
	if err != nil {
		t.Fatal(err)
	}
	l, err := openShared(t.Context(), &cfg, holder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.close() })
}

// ProblemKinds returns the kinds of problems with their statuses.
func ProblemKinds() map[string]int {
	all := make(map[string]int)
	for name, kind := range kinds {
		all[name] = kind.status
	}
	return all
}

// StoreAfterLease returns the error of a ledger that writes after another one has begun a new term.
func StoreAfterLease(t *testing.T, cfg Config) error {
	cfg, err := cfg.check()
	if err != nil {
		t.Fatal(err)
	}
	first, err := openShared(t.Context(), &cfg, "first")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.close() })
	second, err := openShared(t.Context(), &cfg, "first") // the same Server, started again
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.close() })
	return errors.Join(second.putCard(t.Context(), "a", []byte("{}")), first.putCard(t.Context(), "a", []byte("{}")))
}
