// Package webhook receives events over HTTP and handles each event once, with package
// inbox.
//
// It verifies the signature of a request (package signature) before it parses the events.
// It answers a request after the transactions of its handlers have committed.
package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/events/inbox/internal/delivery"
	"github.com/bloomfrontier/crawler/events/signature"
)

// Config configures a handler. Inbox and either Secrets or Unsigned are required.
type Config struct {
	Inbox *inbox.Inbox
	// Secrets are the secrets for signatures. A request must be signed with one of them.
	// Set two while the sender changes its secret. signature.ParseSecrets makes them from their text.
	Secrets [][]byte
	// Unsigned accepts requests without a check of their signature. It is for handlers
	// behind a proxy that checks the sender. Secrets must then be empty.
	Unsigned bool
	// Handle handles an event, in the transaction that marks it. If it is nil, events are
	// stored, and a program that calls Inbox.Work handles them. Store the events if
	// handlers are slow or can fail for ever, because this package does not count attempts.
	Handle inbox.Handler
	// Events makes events from a request. If it is nil, the body must be a CloudEvent or a JSON
	// array of them (inbox.CloudEvent). With Unsigned, it can also be the data of an event whose
	// attributes are headers that begin with "ce-".
	Events func(header http.Header, body []byte) ([]inbox.Event, error)
	// MaxBytes limits the body; 0 means 16 MiB.
	MaxBytes int64
	// Timeout is the time after which the context of a handler ends; 0 means 10 s. The
	// sender should wait longer.
	Timeout time.Duration
	// Logger receives events that were not handled; nil discards.
	Logger *slog.Logger
}

// New returns a handler of POST requests. The statuses of its answers mean:
//
//	200  the events are handled, now or before; an event whose handler returned
//	     inbox.ErrPermanent is a dead letter in the inbox
//	400  Config.Events cannot read the body
//	401  none of the secrets made the signature, or the request's time is more
//	     than signature.MaxAge in the past or future
//	413  the body is too large
//	500  a handler failed: send the request again
//	503  the database is unavailable: send the request again
//
// After a 500, some events of the batch might have been handled. They are duplicates
// when the request is sent again.
func New(cfg Config) (http.Handler, error) {
	err := delivery.Check(cfg.Inbox, map[string]int64{"MaxBytes": cfg.MaxBytes, "Timeout": int64(cfg.Timeout)})
	if cfg.Unsigned == (len(cfg.Secrets) > 0) || slices.ContainsFunc(cfg.Secrets, func(s []byte) bool { return len(s) == 0 }) {
		err = errors.Join(err, errors.New("inbox: set either Config.Secrets, to secrets that are not empty, or Config.Unsigned"))
	}
	if err != nil {
		return nil, err
	}
	if cfg.Events == nil {
		cfg.Events = func(header http.Header, body []byte) ([]inbox.Event, error) {
			if cfg.Unsigned && header.Get("Ce-Specversion") != "" {
				return binaryEvent(header, body)
			}
			return cloudEvents(header, body)
		}
	}
	cfg.MaxBytes, cfg.Timeout = cmp.Or(cfg.MaxBytes, 16<<20), cmp.Or(cfg.Timeout, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &handler{cfg, delivery.Target{Inbox: cfg.Inbox, Handle: cfg.Handle, Timeout: cfg.Timeout}}, nil
}

type handler struct {
	cfg    Config
	target delivery.Target
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "events are sent with POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.cfg.MaxBytes))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		http.Error(w, fmt.Sprintf("the body is larger than %d bytes", h.cfg.MaxBytes), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		return // the sender is gone
	}
	if err := h.verify(r.Header, body); err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	events, err := h.cfg.Events(r.Header, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch h.handle(r, events) {
	case delivery.Failed:
		http.Error(w, "a handler failed: send the request again", http.StatusInternalServerError)
	case delivery.Unavailable:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the database is away: send the request again", http.StatusServiceUnavailable)
	}
}

// verify returns nil if one of the secrets signed the request.
func (h *handler) verify(header http.Header, body []byte) error {
	if h.cfg.Unsigned {
		return nil
	}
	var err error
	for _, secret := range h.cfg.Secrets {
		if err = signature.Verify(header, secret, time.Now(), body); err == nil || errors.Is(err, signature.ErrAge) {
			return err
		}
	}
	return err
}

// handle makes one attempt with each event, and returns the worst outcome.
func (h *handler) handle(r *http.Request, events []inbox.Event) delivery.Outcome {
	worst := delivery.Handled
	for _, e := range events {
		outcome, err := h.target.Deliver(r.Context(), e, nil, r.Header.Get(signature.HeaderID), 1)
		if err != nil {
			h.cfg.Logger.LogAttrs(r.Context(), slog.LevelWarn, "an event was not handled",
				slog.String("id", e.ID), slog.Bool("dead", outcome == delivery.Final), slog.Any("err", err))
		}
		switch outcome {
		case delivery.Failed:
			worst = outcome
		case delivery.Unavailable:
			return outcome
		}
	}
	return worst
}

// binaryEvent reads a CloudEvent in binary mode, whose data is JSON.
func binaryEvent(header http.Header, body []byte) ([]inbox.Event, error) {
	document := map[string]any{"data": json.RawMessage(body)}
	for name, values := range header {
		if attribute, is := strings.CutPrefix(strings.ToLower(name), "ce-"); is {
			value, err := url.PathUnescape(values[0])
			if err != nil {
				return nil, fmt.Errorf("%w: the header %s is not percent-encoded", inbox.ErrInvalid, name)
			}
			document[attribute] = value
		}
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("%w: its body is not JSON", inbox.ErrInvalid)
	}
	event, err := inbox.CloudEvent(text)
	return []inbox.Event{event}, err
}

// cloudEvents reads a CloudEvent, or a batch of them.
func cloudEvents(header http.Header, body []byte) ([]inbox.Event, error) {
	documents := []json.RawMessage{body}
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")) // a malformed type does not mean a batch
	if kind == "application/cloudevents-batch+json" || bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
		documents = nil
		if err := json.Unmarshal(body, &documents); err != nil {
			return nil, fmt.Errorf("%w: it is no batch of CloudEvents: %w", inbox.ErrInvalid, err)
		}
	}
	events := make([]inbox.Event, len(documents))
	for i, document := range documents {
		var err error
		if events[i], err = inbox.CloudEvent(document); err != nil {
			return nil, err
		}
	}
	return events, nil
}
