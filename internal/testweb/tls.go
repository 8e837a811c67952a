package testweb

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"sync"
	"time"
)

// authority is a certificate authority. It signs a certificate for each host when a
// client first asks for it. All certificates have the same key, so that a new host
// needs only a signature.
type authority struct {
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey // of the authority and all hosts
	hosts sync.Map          // name -> *tls.Certificate
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "crawler testweb"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key}, nil
}

// CACert returns the certificate of the authority that signs for all hosts, in PEM. It
// returns nil without Config.TLS. Each Web has its own authority.
func (w *Web) CACert() []byte {
	if w.authority == nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.authority.cert.Raw})
}

func (w *Web) tlsConfig() *tls.Config {
	config := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if !w.isHost(hello.ServerName) {
			return nil, fmt.Errorf("testweb: no host %q", hello.ServerName)
		}
		return w.authority.certificate(hello.ServerName)
	}}
	if w.isMix() {
		full := config.Clone()
		full.SessionTicketsDisabled = true
		config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if host, known := parseHost(hello.ServerName); known && host%2 == 1 {
				return full, nil
			}
			return nil, nil
		}
	}
	return config
}

// certificate returns the certificate of a host, always the same one.
func (a *authority) certificate(host string) (*tls.Certificate, error) {
	if known, ok := a.hosts.Load(host); ok {
		return known.(*tls.Certificate), nil
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		DNSNames:  []string{host},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("testweb: sign a certificate for %q: %w", host, err)
	}
	cert, _ := a.hosts.LoadOrStore(host, &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key})
	return cert.(*tls.Certificate), nil
}
