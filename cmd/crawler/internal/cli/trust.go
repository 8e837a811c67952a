package cli

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// trustFlags declares the flags about certificates.
func (o *options) trustFlags(f *pflag.FlagSet) {
	f.StringVar(&o.ca, "ca", "", "trust the certificates in `FILE` (PEM) too, beside the system's")
	f.StringArrayVar(&o.crawl.Requests.InsecureHosts, "insecure-host", nil, "do not verify the certificates of hosts that match `PATTERN`, such as '*.test.example.org' (repeatable)")
	restrict.Check(f, "ca", parsed(rootCAs))
	restrict.Check(f, "insecure-host", func(pattern string) error {
		if pattern == "" || strings.Trim(strings.ToLower(pattern), seed.HostLetters+"*[:]") != "" || hasPort(pattern) {
			return errors.New("want a host without a port, in which * stands for any characters, such as *.test.example.org")
		}
		return nil
	})
}

// hasPort reports whether a host pattern ends with a port.
func hasPort(pattern string) bool {
	if _, err := netip.ParseAddr(strings.Trim(pattern, "[]")); err == nil {
		return false
	}
	colon := strings.LastIndexByte(pattern, ':')
	return colon >= 0 && colon > strings.LastIndexByte(pattern, ']')
}

// rootCAs returns the system's certificate authorities and those in a PEM file. Its
// error begins with a description of a valid file.
func rootCAs(name string) (*x509.CertPool, error) {
	const want = "want a file with certificates in PEM form"
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", want, errors.Unwrap(err)) // without the file name, which the message contains already
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
