package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/signature"
	"github.com/bloomfrontier/crawler/events/webhook"
	"github.com/bloomfrontier/crawler/fetcher/get"
)

const (
	maxWebhooks    = 10               // of a crawl
	relayAgain     = 10 * time.Second // after an error of a relay
	relayPrefix    = "webhook."       // of the names of relays
	longestWebhook = 50               // bytes of its name, because a relay has at most 64
)

// Webhook is a URL that gets the events of a crawl.
type Webhook struct {
	Name    string    `json:"name"`
	To      string    `json:"to" doc:"scheme and host of the URL, which can have a secret"`
	Signed  bool      `json:"signed"`
	By      string    `json:"by" doc:"the name of the caller"`
	Created time.Time `json:"created"`
}

// WebhookList is the list of webhooks of a crawl.
type WebhookList struct {
	Webhooks []Webhook `json:"webhooks"`
}

// storedWebhook is a webhook in the card of its crawl.
type storedWebhook struct {
	Webhook
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"`
}

// NamedWebhook is the part of a request that names a webhook.
type NamedWebhook struct {
	Named
	Webhook string `path:"webhook" pattern:"^[A-Za-z0-9_-]+$" maxLength:"50"`
}

type webhookInput struct {
	NamedWebhook
	Body struct {
		URL    string `json:"url" minLength:"1" maxLength:"2048" doc:"https, or http on a loopback address"`
		Secret string `json:"secret,omitempty" maxLength:"200" doc:"base64 of 24 to 64 random bytes, with or without whsec_; each request is signed with it"`
	}
}

// routeWebhooks adds the routes of webhooks.
func (s *Server) routeWebhooks() {
	tags, path := []string{"webhooks"}, "/v1/crawls/{crawl}/webhooks"
	handle(s, huma.Operation{
		OperationID: "list-webhooks", Method: http.MethodGet, Path: path, Tags: tags, Summary: "List the webhooks",
	}, Read, plain, func(_ context.Context, in *Named) (*answer[WebhookList], error) {
		m, err := s.fleet.get(in.Crawl)
		if err != nil {
			return nil, err
		}
		out := WebhookList{[]Webhook{}}
		for _, w := range m.copy().Webhooks {
			out.Webhooks = append(out.Webhooks, w.Webhook)
		}
		return body(out, nil)
	})
	handle(s, huma.Operation{
		OperationID: "put-webhook", Method: http.MethodPut, Path: path + "/{webhook}", Tags: tags, Summary: "Deliver the events to a URL",
		Description: "Events are delivered at least once, also those from before. A webhook with the name is replaced, and goes on where it was.",
	}, Write, plain, s.putWebhook)
	handle(s, huma.Operation{
		OperationID: "delete-webhook", Method: http.MethodDelete, Path: path + "/{webhook}", Tags: tags,
		Summary: "Deliver no more events to a URL", DefaultStatus: http.StatusNoContent,
	}, Write, plain, func(ctx context.Context, in *NamedWebhook) (*struct{}, error) {
		m, err := s.fleet.get(in.Crawl)
		if err != nil {
			return nil, err
		}
		return nil, s.fleet.relays.change(ctx, m, in.Webhook, nil)
	})
}

// putWebhook adds or replaces a webhook.
func (s *Server) putWebhook(ctx context.Context, in *webhookInput) (*answer[Webhook], error) {
	m, err := s.fleet.get(in.Crawl)
	if err == nil {
		err = s.fleet.runner.checkRecords(ctx, m)
	}
	if err != nil {
		return nil, err
	}
	w := &storedWebhook{URL: in.Body.URL, Secret: in.Body.Secret, Webhook: Webhook{
		Name: in.Webhook, Signed: in.Body.Secret != "", By: callerOf(ctx).Name, Created: time.Now().UTC().Truncate(time.Second),
	}}
	sink, err := s.fleet.relays.sink(w)
	if err != nil {
		return nil, newProblem("invalid", err.Error())
	}
	_ = sink.Close() // it was only checked
	u, err := url.Parse(w.URL)
	if err != nil {
		return nil, newProblem("invalid", "the URL is malformed") // sink has refused it
	}
	if err := s.fleet.relays.client.CheckHost(ctx, u.Hostname()); err != nil {
		return nil, newProblem("invalid", err.Error())
	}
	w.To = u.Scheme + "://" + u.Host
	if err := s.fleet.relays.change(ctx, m, w.Name, w); err != nil {
		return nil, err
	}
	return body(w.Webhook, nil)
}

// relays delivers events to webhooks, between start and the end of its context.
type relays struct {
	fleet  *fleet
	client *get.Client

	mu      sync.Mutex
	ctx     context.Context               // nil until start
	running map[*member]map[string]func() // ends a relay and waits
	runs    sync.WaitGroup
}

// newRelays returns relays that connect only to addresses that crawls may request, too.
func newRelays(f *fleet) (*relays, error) {
	s := &f.cfg.Settings
	client, err := get.New(get.Config{
		UserAgent: s.Agent, AllowPrivate: s.AllowPrivate, AllowNet: s.AllowNet, DNS: s.DNS, Bind: s.Bind, Proxy: s.Proxy,
	})
	return &relays{fleet: f, client: client, running: make(map[*member]map[string]func())}, err
}

// sink opens the sink of a webhook.
func (r *relays) sink(w *storedWebhook) (*webhook.Sink, error) {
	cfg := webhook.Config{URL: w.URL, DialContext: r.client.DialContext}
	if w.Secret != "" {
		var err error
		if cfg.Secrets, err = signature.ParseSecrets(w.Secret); err != nil {
			return nil, err
		}
	}
	return webhook.New(cfg)
}

// start starts the relays of all crawls. They run until ctx ends.
func (r *relays) start(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx = ctx
	for _, m := range r.fleet.list() {
		for _, w := range m.copy().Webhooks {
			r.run(m, w)
		}
	}
}

// change stores a webhook of a crawl, or removes it if w is nil, and runs its relay.
func (r *relays) change(ctx context.Context, m *member, name string, w *storedWebhook) error {
	m.change.Lock()
	defer m.change.Unlock()
	c := m.copy()
	if c.State != "" {
		return newProblem("no-crawl", "no crawl is named "+m.name)
	}
	at := slices.IndexFunc(c.Webhooks, func(other storedWebhook) bool { return other.Name == name })
	all := slices.Clone(c.Webhooks)
	switch {
	case w == nil && at < 0:
		return newProblem("no-webhook", "no webhook is named "+name)
	case w == nil:
		all = slices.Delete(all, at, at+1)
	case at >= 0 && all[at].URL == w.URL && all[at].Secret == w.Secret:
		*w = all[at] // a repeat
		return nil
	case at >= 0:
		all[at] = *w
	case len(all) == maxWebhooks:
		return newProblem("conflict", "the crawl has as many webhooks as it can have")
	default:
		all = append(all, *w)
	}
	c.Webhooks = all
	if err := r.fleet.put(ctx, m, c); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if end := r.running[m][name]; end != nil {
		end()
	}
	if w != nil && r.ctx != nil && r.ctx.Err() == nil {
		r.run(m, *w)
	}
	return nil
}

// run starts a relay. The caller must hold r.mu.
func (r *relays) run(m *member, w storedWebhook) {
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan struct{})
	if r.running[m] == nil {
		r.running[m] = make(map[string]func())
	}
	r.running[m][w.Name] = func() {
		cancel()
		<-ended
		delete(r.running[m], w.Name)
	}
	log := r.fleet.cfg.Logger.With("crawl", m.name, "webhook", w.Name)
	r.runs.Go(func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := r.deliver(ctx, m, &w, log); err != nil && ctx.Err() == nil {
				log.Error("webhook failed, and is tried again", slog.Any("err", err))
			}
			select {
			case <-ctx.Done():
			case <-time.After(relayAgain):
			}
		}
	})
}

// deliver delivers events until ctx ends, or until an error.
func (r *relays) deliver(ctx context.Context, m *member, w *storedWebhook, log *slog.Logger) error {
	sink, err := r.sink(w)
	if err != nil {
		return err
	}
	h, err := crawl.Attach(ctx, r.fleet.runner.at(m.name))
	if err == nil {
		err = h.Relay(ctx, events.Config{Name: relayPrefix + w.Name, Sink: sink, Logger: log}, false)
	}
	return errors.Join(err, sink.Close())
}

// end ends the relays of a crawl that is deleted, and waits.
func (r *relays) end(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, end := range r.running[m] {
		end()
	}
	delete(r.running, m)
}
