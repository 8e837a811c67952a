package get

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"syscall"

	"github.com/bloomfrontier/crawler/frontier"
)

// CheckError returns what an error of Get says about a link: CheckBroken if its host does not
// exist, refuses the connection or has a certificate that is not valid, otherwise CheckUnknown.
func CheckError(err error) frontier.Outcome {
	name, _ := errors.AsType[*net.DNSError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if name != nil && name.IsNotFound || untrusted || errors.Is(err, syscall.ECONNREFUSED) {
		return frontier.CheckBroken
	}
	return frontier.CheckUnknown
}

// Check returns what an answer says about a link: CheckOK, CheckBroken or CheckUnknown. A redirect
// says nothing yet.
func (r *Response) Check() frontier.Outcome {
	switch {
	case r.Wall() != Wall{}:
		return frontier.CheckUnknown
	case r.Status >= 200 && r.Status <= 299:
		return frontier.CheckOK
	case r.Status == http.StatusNotFound, r.Status == http.StatusGone:
		return frontier.CheckBroken
	}
	return frontier.CheckUnknown
}
