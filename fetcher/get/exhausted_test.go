package get

import (
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
)

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// TestExhaustionClosesKeptConnections: if the machine has no free port or descriptor, the
// client closes its idle connections.
func TestExhaustionClosesKeptConnections(t *testing.T) {
	t.Parallel()
	to := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	for _, test := range []struct {
		err    syscall.Errno
		closed int
	}{{syscall.EADDRNOTAVAIL, 1}, {syscall.EMFILE, 1}, {syscall.ECONNREFUSED, 0}} {
		fault := &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: os.NewSyscallError("connect", test.err)}
		closed := 0
		c, err := New(Config{UserAgent: "test", Transport: failing{fault}})
		if err != nil {
			t.Fatal(err)
		}
		c.close = func() { closed++ }
		if _, err := c.Get(t.Context(), Request{URL: "http://example.org/"}); !errors.Is(err, test.err) {
			t.Errorf("Get: %v, want %v", err, test.err)
		}
		if closed != test.closed {
			t.Errorf("%v: kept connections were closed %d times, want %d", test.err, closed, test.closed)
		}
	}
}
