// Package webhook delivers events by HTTP POST.
//
// It owns the requests and the meaning of their answers. It does not own signatures
// (package signature). The relay (events.Run) decides when a delivery is tried again.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/signature"
)

// Config configures a Sink. URL is required.
type Config struct {
	// URL receives the requests. Its scheme is https, or http for a loopback address.
	URL string
	// Secrets sign each request (see signature.Sign and signature.ParseSecrets). None means that requests are not signed.
	Secrets [][]byte
	// Batch sends all events of one call of Send in one request, whose body is an array
	// of events (application/cloudevents-batch+json). If Batch is false, each request has
	// one event (application/cloudevents+json), and the event's id in the header
	// Idempotency-Key.
	Batch bool
	// Binary sends the attributes of an event as headers and its data as the body (the binary content mode of CloudEvents).
	// It cannot be used with Secrets, because a signature covers only the body, or with Batch, which has no binary form.
	Binary bool
	// ContentType replaces the Content-Type of requests, for receivers that parse only application/json. Without Binary.
	ContentType string
	// Timeout limits the time of a request, including its answer; 0 means 30 s.
	Timeout time.Duration
	// TLS is the configuration of https connections; nil trusts the system's authorities.
	TLS *tls.Config
	// DialContext opens connections, as that of http.Transport; nil means the default. It can refuse addresses.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	// maxRequests is the maximum number of requests under way.
	maxRequests = 16
	// longestPause is the longest pause that a Retry-After header can ask for.
	longestPause = time.Hour
	// answerBytes is how much of an answer's body is read. reasonBytes is how much of the
	// body a dead letter keeps.
	answerBytes, reasonBytes = 64 << 10, 200
)

// Sink sends events to one URL. It is safe for concurrent use.
//
// A status from 200 to 299 acknowledges an event. The statuses 400, 413 and 422 refuse it
// for good. After a batch was refused, each of its events is sent alone, so that only the
// faulty events are refused. Every other answer, including a redirect, means that the
// receiver cannot accept events now (events.AwayError). The Retry-After header of the
// answer is obeyed, up to one hour.
type Sink struct {
	cfg    Config
	client *http.Client
	turns  chan struct{} // a value for each request under way
}

var _ events.Sink = (*Sink)(nil)

// New returns a sink. It makes no request. An error describes a fault of cfg, but does not
// contain the URL, because the URL can have a password or a token.
func New(cfg Config) (*Sink, error) {
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("webhook: the URL is malformed, want https://HOST/PATH")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("webhook: http to %s is readable by others: use https, which only loopback addresses can do without", u.Host)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("webhook: the URL's scheme is %q, want https", u.Scheme)
	case cfg.Timeout < 0:
		return nil, fmt.Errorf("webhook: Timeout is %v, want 0 or more", cfg.Timeout)
	case cfg.Binary && len(cfg.Secrets) > 0:
		return nil, errors.New("webhook: binary requests cannot be signed: a signature covers the body, and their attributes are headers")
	case cfg.Binary && (cfg.Batch || cfg.ContentType != ""):
		return nil, errors.New("webhook: binary requests have one event, and the content type of its data")
	}
	if err := CheckContentType(cfg.ContentType); err != nil {
		return nil, err
	}
	return &Sink{
		cfg: cfg,
		client: &http.Client{
			Timeout: cmp.Or(cfg.Timeout, 30*time.Second),
			Transport: &http.Transport{
				DialContext: cfg.DialContext, TLSClientConfig: cfg.TLS, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: maxRequests,
				IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: answerBytes,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		turns: make(chan struct{}, maxRequests),
	}, nil
}

// CheckContentType returns an error if text is neither empty nor a media type of JSON, such as application/json or
// application/x+json.
func CheckContentType(text string) error {
	kind, _, err := mime.ParseMediaType(text)
	if text == "" || err == nil && (strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "+json")) {
		return nil
	}
	return fmt.Errorf("webhook: the content type is %q, want a type of JSON, such as application/json", text)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Send implements events.Sink.
func (s *Sink) Send(ctx context.Context, batch []events.Event) []error {
	if s.cfg.Batch && len(batch) > 1 {
		err := s.post(ctx, batch)
		if _, refused := errors.AsType[*events.RefusedError](err); !refused {
			return slices.Repeat([]error{err}, len(batch))
		}
	}
	errs := make([]error, len(batch))
	var requests sync.WaitGroup
	for i := range batch {
		requests.Go(func() { errs[i] = s.post(ctx, batch[i:i+1]) })
	}
	requests.Wait()
	return errs
}

// Close implements events.Sink.
func (s *Sink) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// post sends one request with events.
func (s *Sink) post(ctx context.Context, batch []events.Event) error {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return &events.AwayError{Err: ctx.Err()}
	}
	request, err := s.request(ctx, batch)
	if err != nil {
		return err
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return &events.AwayError{Err: withoutURL(err)}
	}
	defer answer.Body.Close()
	// A connection is reused only if its answer was read to the end. An error of this
	// read is ignored, because the status is known.
	text, _ := io.ReadAll(io.LimitReader(answer.Body, answerBytes))
	return verdict(answer, text, time.Now())
}

// request returns the signed request for events.
func (s *Sink) request(ctx context.Context, batch []events.Event) (*http.Request, error) {
	var body []byte
	var err error
	id, kind := batch[0].ID, "application/cloudevents+json"
	switch {
	case s.cfg.Batch:
		id, kind = batchID(batch), "application/cloudevents-batch+json"
		body, err = batchBody(batch)
	case s.cfg.Binary:
		kind, body = "application/json", batch[0].Data
	default:
		body, err = batch[0].MarshalJSON()
	}
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return nil, withoutURL(err)
	}
	request.Header.Set("Content-Type", cmp.Or(s.cfg.ContentType, kind+"; charset=utf-8"))
	if s.cfg.Binary {
		batch[0].SetHeaders(request.Header)
	}
	request.Header.Set("User-Agent", "crawler-relay")
	if !s.cfg.Batch {
		request.Header.Set("Idempotency-Key", id)
	}
	if len(s.cfg.Secrets) > 0 {
		signature.Sign(request.Header, s.cfg.Secrets, id, time.Now(), body)
	}
	return request, nil
}

// batchBody returns the JSON array of events.
func batchBody(batch []events.Event) (body []byte, err error) {
	for i := range batch {
		body = append(body, "[,"[min(i, 1)])
		if body, err = batch[i].AppendJSON(body); err != nil {
			return nil, err
		}
	}
	return append(body, ']'), nil
}

// batchID returns the id of a batch. It is the same for every repeat of the batch.
func batchID(batch []events.Event) string {
	sum := sha256.New()
	for i := range batch {
		io.WriteString(sum, batch[i].ID+"\n")
	}
	return "batch-" + hex.EncodeToString(sum.Sum(nil)[:16])
}

// verdict returns the error that Send returns for the events of a request. The arguments are
// the HTTP answer, its body and the current time.
func verdict(answer *http.Response, text []byte, now time.Time) error {
	said := "the receiver answers " + answer.Status
	switch status := answer.StatusCode; {
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge, status == http.StatusUnprocessableEntity:
		if reason := strings.TrimSpace(strings.ToValidUTF8(string(text[:min(len(text), reasonBytes)]), "")); reason != "" {
			said += ": " + reason
		}
		return &events.RefusedError{Reason: said}
	case status >= 300 && status <= 399:
		said += ": redirects are not followed, use the URL that it leads to"
	case status == http.StatusUnauthorized:
		said += ": check the secret, and the clocks of both machines"
	}
	return &events.AwayError{After: retryAfter(answer.Header.Get("Retry-After"), now), Err: errors.New(said)}
}

// retryAfter returns the pause that a Retry-After header asks for, in seconds or as a date.
// It returns 0 if the header asks for none.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(longestPause/time.Second))) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), longestPause)
}

// withoutURL returns the cause of an error of package net/http. The error itself contains
// the URL, which can have a token.
func withoutURL(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}
