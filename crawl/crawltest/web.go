package crawltest

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
)

// RoundTrip implements http.RoundTripper: the handler of the request's host answers.
func (w Web) RoundTrip(r *http.Request) (*http.Response, error) {
	handler, found := w[r.URL.Host]
	if !found {
		handler, found = w["*"]
	}
	if !found {
		return nil, &net.DNSError{Err: "no such host", Name: r.URL.Hostname(), IsNotFound: true}
	}
	asked := r.Clone(r.Context())
	asked.RequestURI, asked.RemoteAddr, asked.Body = r.URL.RequestURI(), "192.0.2.1:1234", http.NoBody
	if r.URL.Scheme == "https" {
		asked.TLS = &tls.ConnectionState{HandshakeComplete: true, ServerName: r.URL.Hostname()}
	}
	answered := make(chan error, 1)
	answer := httptest.NewRecorder()
	go func() {
		defer func() {
			if fault := recover(); fault == http.ErrAbortHandler {
				answered <- io.ErrUnexpectedEOF
			} else if fault != nil {
				answered <- fmt.Errorf("crawltest: the handler of %s panicked: %v", r.URL.Host, fault)
			}
		}()
		handler.ServeHTTP(answer, asked)
		answered <- nil
	}()
	select {
	case err := <-answered:
		if err != nil {
			return nil, err
		}
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	response := answer.Result()
	response.Request = r
	if r.Method == http.MethodHead {
		response.Body = http.NoBody
	}
	return response, nil
}
