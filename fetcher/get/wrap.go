package get

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// A request passes these, if Config.Wrap is set:
//
//	Client ─ wrapping ─► what Wrap returns ─► unwrapping ─► http.Transport
//
// The Client and http.Transport have the target of the request as bytes in URL.Opaque, and a body that keeps net/http
// from repeating the request. The functions between them see a request as net/http makes it.

// wrapping gives requests to what Config.Wrap returned.
type wrapping struct{ outer http.RoundTripper }

// unwrapping takes requests from what Config.Wrap returned. It sends the bytes of a URL that was not changed as they are.
type unwrapping struct {
	inner     http.RoundTripper
	checkPort func(port string) error
}

// asBuilt is a value of a request's context.
type asBuilt struct {
	url   *url.URL // as the Client made it
	plain url.URL  // as wrapping gave it to what Config.Wrap returned
}

type builtKey struct{}

// RoundTrip implements http.RoundTripper.
func (w wrapping) RoundTrip(built *http.Request) (*http.Response, error) {
	plain := plainURL(built.URL)
	r := built.WithContext(context.WithValue(built.Context(), builtKey{}, &asBuilt{built.URL, *plain}))
	r.URL, r.Host, r.Header, r.Body, r.TransferEncoding = plain, cmp.Or(built.Host, plain.Host), built.Header.Clone(), http.NoBody, nil
	answer, err := w.outer.RoundTrip(r)
	switch {
	case err != nil:
		return nil, err
	case answer == nil || answer.Header == nil:
		return nil, errors.New("get: the RoundTripper of Config.Wrap returned no answer and no error")
	case answer.Body == nil:
		answer.Body = http.NoBody
	case answer.ContentLength == 0 && answer.Body != http.NoBody: // made by hand
		answer.ContentLength = -1
	}
	return answer, nil
}

// RoundTrip implements http.RoundTripper.
func (g unwrapping) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := r.WithContext(r.Context())
	built, _ := r.Context().Value(builtKey{}).(*asBuilt)
	if built != nil && *r.URL == built.plain {
		sent.URL = built.url
	} else {
		u, err := parseURL(r.URL.String())
		if err == nil {
			err = g.checkPort(u.Port())
		}
		if err != nil {
			return nil, fmt.Errorf("get: a request that was changed by the RoundTripper of Config.Wrap: %w", err)
		}
		sent.URL = u
	}
	if r.Host == r.URL.Host {
		sent.Host = ""
	}
	if r.Body == nil || r.Body == http.NoBody {
		sent.Body, sent.TransferEncoding, sent.ContentLength = onceBody{}, []string{"identity"}, 0
	}
	return g.inner.RoundTrip(sent)
}

// plainURL returns a URL of parseURL as url.Parse would. A path with wrong escapes is taken as it is.
func plainURL(u *url.URL) *url.URL {
	if u.Opaque == "" {
		plain := *u
		return &plain
	}
	target := strings.TrimPrefix(u.Opaque, "//"+u.Host) // the absolute form
	path, query, asked := strings.Cut(target, "?")
	plain := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path, RawQuery: query, ForceQuery: asked && query == ""}
	if decoded, err := url.PathUnescape(path); err == nil {
		plain.Path = decoded
		if plain.EscapedPath() != path {
			plain.RawPath = path
		}
	}
	return plain
}
