package get

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/bloomfrontier/crawler/internal/resolve"
)

func TestCause(t *testing.T) {
	t.Parallel()
	dial := func(err error) error { return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", err)} }
	for _, test := range []struct {
		err  error
		want string
	}{
		{&net.DNSError{Err: "no such host", IsNotFound: true}, CauseName},
		{&net.DNSError{Err: "server misbehaving", IsTemporary: true}, CauseNameServer},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, CauseNameServer},
		{resolve.ErrServer, CauseNameServer},
		{dial(syscall.ECONNREFUSED), CauseRefused},
		{dial(syscall.EHOSTUNREACH), CauseUnreachable},
		{dial(syscall.ENETUNREACH), CauseUnreachable},
		{&tls.CertificateVerificationError{Err: errors.New("expired")}, CauseCertificate},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, CauseTLS},
		{fmt.Errorf("remote error: %w", tls.AlertError(40)), CauseTLS},
		{ErrTimeout, CauseTimeout}, {ErrHeaderTimeout, CauseTimeout}, {ErrTooSlow, CauseTimeout},
		{dial(syscall.ETIMEDOUT), CauseTimeout},
		{syscall.ECONNRESET, CauseReset}, {io.EOF, CauseReset}, {io.ErrUnexpectedEOF, CauseReset}, {ErrStale, CauseReset},
		{headerTooLong(1), CauseTooLarge},
		{ErrHTTP2Only, CauseNotHTTP}, {ErrNotHTTP, CauseNotHTTP}, {ErrDiscarded, CauseNotHTTP},
		{errors.New("something else"), CauseOther},
	} {
		for _, err := range []error{test.err, &Error{OpRequest, test.err}, fmt.Errorf("get: %w", &Error{OpConnect, test.err})} {
			if got := Cause(err); got != test.want {
				t.Errorf("Cause(%v) = %s, want %s", err, got, test.want)
			}
		}
	}
}
