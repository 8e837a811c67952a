package get

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// RootCAs returns the system's certificate authorities and those in a PEM file, for
// Config.RootCAs. Its error begins with a description of a valid file.
func RootCAs(name string) (*x509.CertPool, error) {
	const want = "want a file with certificates in PEM form"
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", want, errors.Unwrap(err)) // without the file name, which the caller's message contains
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's certificates: %w", err)
	}
	certificates := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificates++
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d there: %w", want, certificates, err)
		}
		roots.AddCert(certificate)
	}
	if certificates == 0 {
		return nil, errors.New(want + ": it has none")
	}
	return roots, nil
}
