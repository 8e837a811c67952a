package get

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/resolve"
)

var (
	// ErrAborted reports that the caller's context ended: nothing is known
	// about the URL.
	ErrAborted = errors.New("get: given up by the caller")
	// ErrStale reports that a kept connection turned out to be dead before a
	// byte of the answer came. The request may have reached the server, so it
	// counts as a start, but it says nothing about the URL or the host.
	ErrStale = errors.New("get: kept connection was closed")
	// ErrURL reports a string that cannot be requested.
	ErrURL = errors.New("get: not a URL")
)

// Op is how far a request came.
type Op string

const (
	OpConnect Op = "connect" // look-up, dial, TLS handshake
	OpRequest Op = "request" // writing the request, reading the header of the answer
	OpBody    Op = "body"
)

// Error reports a request that got no answer, or not all of one.
type Error struct {
	Op  Op
	Err error
}

func (e *Error) Error() string { return string(e.Op) + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Fault is what an error means for the URL and its host.
type Fault struct {
	Outcome frontier.Outcome // when it is not tried again
	Retry   bool             // another attempt may go better
	// Host: no connection to the host could be made; it is no fault of the URL.
	Host bool
	// Stale: the host is not to blame; the URL is tried again like after any
	// other failure, so that a server that hangs up each time is not asked for ever.
	Stale bool
	// Local: this machine could not make the request: its proxy or name server
	// does not answer, or no descriptor or port is free. It says nothing about
	// the URL or its host, which are tried again when that has changed.
	Local bool
	// Aborted: give the item back, nothing is used up. Outcome is empty.
	Aborted bool
}

// Classify says what an error of Get means. Together with Response.Outcome it
// is the one place that decides; nobody else looks into network errors.
func Classify(err error) Fault {
	var fault *Error
	var refused *AddressError
	var port *PortError
	switch {
	case err == nil:
		return Fault{}
	case errors.Is(err, ErrAborted):
		return Fault{Aborted: true}
	case errors.Is(err, ErrStale):
		return Fault{Outcome: frontier.Network, Retry: true, Stale: true}
	case errors.As(err, &refused), errors.As(err, &port):
		return Fault{Outcome: frontier.Address}
	case errors.Is(err, ErrURL):
		return Fault{Outcome: frontier.Network}
	case isLocal(err):
		return Fault{Outcome: frontier.Network, Retry: true, Local: true}
	case errors.As(err, &fault):
		return Fault{Outcome: frontier.Network, Retry: true, Host: fault.Op == OpConnect}
	}
	return Fault{Outcome: frontier.Network, Retry: true}
}

// isLocal reports whether err lies with this machine.
func isLocal(err error) bool {
	if errors.Is(err, ErrProxy) || errors.Is(err, resolve.ErrServer) {
		return true
	}
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, lack) {
			return true
		}
	}
	// A machine without IPv6 answers the same to every IPv6 address.
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return false
	}
	to, ok := op.Addr.(*net.TCPAddr)
	return ok && to.IP.To4() != nil
}

// Outcome says what the answer means: the outcome when it is final or the
// attempts are used up, and whether another attempt may go better.
func (r *Response) Outcome() (outcome frontier.Outcome, retry bool) {
	if r.TypeRefused {
		return frontier.Type, false
	}
	return OutcomeOf(r.Status)
}

// OutcomeOf says what an HTTP status means, as Response.Outcome does. What no
// standard knows above 599 counts as the client's error: asking again would
// not help.
func OutcomeOf(status int) (outcome frontier.Outcome, retry bool) {
	switch {
	case status < 200:
		return frontier.Network, true
	case status < 300:
		return frontier.OK, false
	case status < 400:
		return frontier.Redirect, false
	case status == 408, status == 425, status == 429:
		return frontier.Throttled, true
	case status >= 500 && status < 600:
		return frontier.ServerError, true
	}
	return frontier.ClientError, false
}

// isTimeout reports whether err says that time ran out.
func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
