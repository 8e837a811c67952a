package get

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/resolve"
)

var (
	// ErrAborted reports that the caller's context ended, or that Request.Permit returned
	// an error. It says nothing about the URL.
	ErrAborted = errors.New("get: given up by the caller")
	// ErrStale reports that a reused connection was closed before the first byte of the
	// answer. The request may have reached the server, so the next request to the host
	// must wait for the delay. The error says nothing about the URL or the host.
	ErrStale = errors.New("get: kept connection was closed")
	// ErrHTTP2Only reports a host that speaks HTTP/2 and not HTTP/1.1.
	ErrHTTP2Only = errors.New("the host speaks only HTTP/2")
	// ErrURL reports a string that cannot be requested.
	ErrURL = errors.New("get: not a URL")
)

// Op is the step at which a request failed.
type Op string

const (
	OpConnect Op = "connect" // look-up, dial, TLS handshake
	OpRequest Op = "request" // writing the request, waiting for the status line of the answer
	OpHeader  Op = "header"  // reading the rest of the answer's header
	OpBody    Op = "body"
)

// Error reports a request without a complete answer.
type Error struct {
	Op  Op
	Err error
}

func (e *Error) Error() string { return string(e.Op) + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Fault is what an error means for the URL and its host.
type Fault struct {
	Outcome frontier.Outcome // of the URL, if it is not tried again
	Retry   bool             // another attempt may succeed
	// Host reports that no connection to the host could be made.
	Host bool
	// Answered reports that an answer began, with a status line. So the host is alive.
	Answered bool
	// Stale reports ErrStale, which is not a fault of the host. The request counts as an
	// attempt. Otherwise a request to a server that always closes the connection would be
	// repeated for ever.
	Stale bool
	// Local reports that this machine could not make the request: its proxy or name
	// server does not answer, the proxy refuses tunnels to every address, or no
	// descriptor or port is free. It says nothing about the URL or its host. The URL is
	// tried again when the machine works again.
	Local bool
	// Lasting reports that no request to the host can succeed before its name, port or certificate changes: a name
	// server answered that the name has no address, the port does not speak TLS, or the certificate
	// is not valid for the host.
	Lasting bool
	// Aborted reports ErrAborted: the item is given back and no attempt is used up.
	// Outcome is empty.
	Aborted bool
}

// Classify returns the meaning of an error of Get. Classify and Response.Outcome are
// the only functions that interpret network errors and statuses.
func Classify(err error) Fault {
	var fault *Error
	var refused *AddressError
	var port *PortError
	var refusal *refusalError
	switch {
	case err == nil:
		return Fault{}
	case errors.Is(err, ErrAborted):
		return Fault{Aborted: true}
	case errors.Is(err, ErrStale):
		return Fault{Outcome: frontier.Network, Retry: true, Stale: true}
	case errors.As(err, &refused), errors.As(err, &port), errors.As(err, &refusal) && refusal.others:
		return Fault{Outcome: frontier.Address}
	case errors.Is(err, ErrURL):
		return Fault{Outcome: frontier.Network}
	case isLocal(err):
		return Fault{Outcome: frontier.Network, Retry: true, Local: true}
	case isLasting(err):
		return Fault{Outcome: frontier.Network, Lasting: true}
	case errors.Is(err, ErrDiscarded):
		return Fault{Outcome: frontier.Network, Answered: true}
	case errors.As(err, &fault):
		return Fault{Outcome: frontier.Network, Retry: true, Host: fault.Op == OpConnect, Answered: fault.Op == OpHeader || fault.Op == OpBody}
	}
	return Fault{Outcome: frontier.Network, Retry: true}
}

// isLasting reports whether an error of a request is lasting: see Fault.Lasting.
func isLasting(err error) bool {
	if name, is := errors.AsType[*net.DNSError](err); is {
		return name.IsNotFound
	}
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return plain || untrusted
}

// isLocal reports whether err is a fault of this machine.
func isLocal(err error) bool {
	return errors.Is(err, ErrProxy) || errors.Is(err, resolve.ErrServer) || isExhausted(err)
}

// isExhausted reports whether this machine has no descriptor, port or memory left
// for a connection.
func isExhausted(err error) bool {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, lack) {
			return true
		}
	}
	// EADDRNOTAVAIL means that no port is free, but only for IPv4: a machine without IPv6
	// returns it for every IPv6 address.
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return false
	}
	to, ok := op.Addr.(*net.TCPAddr)
	return ok && to.IP.To4() != nil
}

// Causes of errors of Get, for frontier.Completion.Cause.
const (
	CauseName        = "name_not_found" // a name server says that the name has no address
	CauseNameServer  = "name_server"    // no answer about the name
	CauseRefused     = "refused"        // nothing listens on the port
	CauseUnreachable = "unreachable"    // no route to the host or its network
	CauseCertificate = "certificate"    // it is not valid
	CauseTLS         = "tls"
	CauseTimeout     = "timeout"
	CauseReset       = "reset" // the connection ended before the answer, or within it
	CauseTooLarge    = "too_large"
	CauseProxy       = "proxy_refused" // the proxy opens tunnels, but not to this address
	CauseNotHTTP     = "not_http"      // what arrived is no answer of HTTP/1.1
	CauseOther       = "other"
)

// Cause returns the cause of an error of Get.
func Cause(err error) string {
	name, _ := errors.AsType[*net.DNSError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	_, length := errors.AsType[headerTooLong](err)
	_, refusal := errors.AsType[*refusalError](err)
	switch {
	case refusal:
		return CauseProxy
	case name != nil && name.IsNotFound:
		return CauseName
	case errors.Is(err, resolve.ErrServer), name != nil:
		return CauseNameServer
	case untrusted:
		return CauseCertificate
	case plain, alert:
		return CauseTLS
	case IsTimeout(err):
		return CauseTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return CauseRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return CauseUnreachable
	case length:
		return CauseTooLarge
	case errors.Is(err, ErrHTTP2Only), errors.Is(err, ErrNotHTTP), errors.Is(err, ErrDiscarded):
		return CauseNotHTTP
	case errors.Is(err, ErrStale), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF):
		return CauseReset
	}
	return CauseOther
}

// Outcome returns the meaning of the answer: the outcome of the URL if it is not tried
// again, and whether another attempt may succeed.
func (r *Response) Outcome() (outcome frontier.Outcome, retry bool) {
	switch {
	case r.TypeRefused:
		return frontier.Type, false
	case errors.Is(r.Damage, ErrCoding):
		return frontier.Coding, false
	case r.SignAgain:
		outcome, _ := OutcomeOf(r.Status)
		return outcome, true
	}
	return OutcomeOf(r.Status)
}

// OutcomeOf returns the meaning of an HTTP status, as Response.Outcome does. Statuses
// above 599, which no standard defines, count as client errors, because another attempt
// would not help.
func OutcomeOf(status int) (outcome frontier.Outcome, retry bool) {
	switch {
	case status < 200:
		return frontier.Network, true
	case status < 300:
		return frontier.OK, false
	case status == http.StatusNotModified: // to a request without conditions
		return frontier.ServerError, true
	case status < 400:
		return frontier.Redirect, false
	case status == 408, status == 425, status == 429:
		return frontier.Throttled, true
	case status >= 500 && status < 600:
		return frontier.ServerError, true
	}
	return frontier.ClientError, false
}

// IsTimeout reports whether an error of Get is a timeout.
func IsTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
