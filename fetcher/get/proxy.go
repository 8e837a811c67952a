package get

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// ErrProxy reports that the proxy itself cannot be used: it does not answer, refuses us, or
// is no proxy. It says nothing about the URL or its host.
var ErrProxy = errors.New("get: proxy")

// errProxyURL is the error for any fault in Config.Proxy. It does not contain the value,
// which may contain a password.
var errProxyURL = errors.New("Proxy, want http, https or socks5, then ://[USER:PASSWORD@]HOST[:PORT] (it is not shown, for it may hold a password)")

// refusalError reports that the proxy refuses a tunnel, as its rules say. It says nothing about the host of the URL.
type refusalError struct {
	to     netip.AddrPort
	answer string // of the proxy
	plain  bool   // the tunnel was for http
	others bool   // the proxy has just opened tunnels to the same port, so it refuses this address only
}

func (e *refusalError) Error() string {
	text := fmt.Sprintf("it refuses a tunnel to %s (%s)", e.to, e.answer)
	if e.plain && !e.others {
		text += "; with --proxy-http absolute it gets http requests without a tunnel"
	}
	return text
}

// Is makes a refusal that is not about one address a fault of the proxy: it may have other rules tomorrow.
func (e *refusalError) Is(target error) bool { return target == ErrProxy && !e.others }

// grantTime is the time for which a proxy that opened a tunnel to a port is known to open tunnels to this port. A refusal
// within it is about the address.
const grantTime = time.Minute

// maxConnectHeader bounds a proxy's answer to CONNECT.
const maxConnectHeader = 16 << 10

// proxy opens tunnels to addresses. Its errors never contain the user or the password.
type proxy struct {
	address   string // host:port
	tls       *tls.Config
	socks     bool
	user      *url.Userinfo // nil means none
	plainAuth string        // the Proxy-Authorization header, if there is one
	absolute  bool          // http requests are sent in absolute form, without a tunnel

	mu      sync.Mutex
	granted map[uint16]time.Time // by port: the last tunnel that was opened
}

// parseProxy parses Config.Proxy. It returns nil if Config.Proxy is empty.
func parseProxy(config Config) (*proxy, error) {
	if config.Proxy == "" {
		if config.ProxyAbsolute {
			return nil, errors.New("ProxyAbsolute without Proxy")
		}
		return nil, nil
	}
	u, err := url.Parse(config.Proxy)
	if err != nil || u.Hostname() == "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		return nil, errProxyURL
	}
	p := &proxy{user: u.User, absolute: config.ProxyAbsolute, granted: map[uint16]time.Time{}}
	port, ok := map[string]string{"http": "80", "https": "443", "socks5": "1080"}[u.Scheme]
	if !ok {
		return nil, errProxyURL
	}
	if u.Port() != "" {
		port = u.Port()
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return nil, errProxyURL
	}
	p.address = net.JoinHostPort(u.Hostname(), port)
	if _, _, err := net.SplitHostPort(p.address); err != nil { // url.Parse accepts a lone bracket
		return nil, errProxyURL
	}
	password, _ := u.User.Password()
	switch p.socks = u.Scheme == "socks5"; {
	case p.socks && p.absolute:
		return nil, errors.New("ProxyAbsolute with a socks5 proxy, want an http or https proxy")
	case p.socks && (len(u.User.Username()) > 255 || len(password) > 255):
		return nil, errProxyURL // SOCKS sends their length as one byte
	case u.Scheme == "https":
		p.tls = &tls.Config{
			ServerName: u.Hostname(), RootCAs: config.RootCAs, NextProtos: []string{"http/1.1"},
			InsecureSkipVerify: isInsecure(config.InsecureHosts, u.Hostname()),
		}
	}
	if u.User != nil {
		p.plainAuth = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

// connect opens a tunnel to an address. plain says that it is for http, not https.
func (p *proxy) connect(ctx context.Context, via *net.Dialer, to netip.AddrPort, plain bool) (net.Conn, error) {
	conn, err := p.dial(ctx, via)
	if err != nil {
		return nil, err
	}
	// The calls below take no ctx. When ctx ends, a deadline in the past ends their reads
	// and writes.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	if p.socks {
		err = p.socksConnect(conn, to)
	} else {
		err = p.httpConnect(conn, to)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	p.note(err, to.Port(), plain)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("through proxy %s: %w", p.address, err)
	}
	return conn, nil
}

// dial opens a connection to the proxy itself.
func (p *proxy) dial(ctx context.Context, via *net.Dialer) (net.Conn, error) {
	conn, err := via.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProxy, err)
	}
	if p.tls == nil {
		return conn, nil
	}
	secure := tls.Client(conn, p.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%w %s: %w", ErrProxy, p.address, err)
	}
	return secure, nil
}

// note notes that the proxy has opened a tunnel to a port, or what a refusal means.
func (p *proxy) note(err error, port uint16, plain bool) {
	refusal, refused := errors.AsType[*refusalError](err)
	if err != nil && !refused {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.granted[port] = time.Now()
		return
	}
	granted, ever := p.granted[port]
	refusal.plain, refusal.others = plain, ever && time.Since(granted) < grantTime
}

// noReply returns the error for a proxy that does not say whether it opened a tunnel. A
// timeout is not a fault of the proxy, because the proxy may still wait for the host.
func noReply(err error) error {
	if IsTimeout(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrProxy, err)
}

// httpConnect asks an HTTP proxy for a tunnel (RFC 9110, 9.3.6).
func (p *proxy) httpConnect(conn net.Conn, to netip.AddrPort) error {
	request := "CONNECT " + to.String() + " HTTP/1.1\r\nHost: " + to.String() + "\r\n"
	if p.plainAuth != "" {
		request += "Proxy-Authorization: " + p.plainAuth + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return fmt.Errorf("%w: %w", ErrProxy, err)
	}
	from := bufio.NewReader(io.LimitReader(conn, maxConnectHeader))
	answer, err := http.ReadResponse(from, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("answer to CONNECT: %w", noReply(err))
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusProxyAuthRequired:
		return fmt.Errorf("%w: it wants another user and password", ErrProxy)
	case isRefusal(answer.StatusCode):
		return &refusalError{to: to, answer: fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))}
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return fmt.Errorf("CONNECT %s: %d %s", to, answer.StatusCode, http.StatusText(answer.StatusCode))
	case from.Buffered() > 0:
		return fmt.Errorf("%w: it sends before it is asked", ErrProxy)
	}
	return nil
}

// isRefusal reports whether a status of an answer to CONNECT is about the rules of the proxy. Squid and Apache refuse
// ports and hosts by 403, and proxies without CONNECT answer 405 or 501; a login page is a redirect. The
// other statuses of servers are about the host: 502, 503 and 504 (RFC 9110, 15.6), and 500, with which tinyproxy says that it
// cannot connect.
func isRefusal(status int) bool {
	return status >= 300 && status <= 499 || status == http.StatusNotImplemented
}

// The parts of SOCKS version 5 (RFC 1928, 1929) that are used.
const (
	socksVersion      = 5
	socksNoAuth       = 0
	socksPassword     = 2
	socksAuthVersion  = 1
	socksConnectTo    = 1
	socksIPv4         = 1
	socksName         = 3
	socksIPv6         = 4
	socksGeneralError = 1
	socksNotAllowed   = 2
)

// socksReplies are the texts for the reply codes of a SOCKS server, from code 1.
var socksReplies = []string{
	"general failure", "not allowed", "network unreachable", "host unreachable", "connection refused",
	"TTL expired", "command not supported", "address type not supported",
}

// socksConnect asks a SOCKS server for a tunnel.
func (p *proxy) socksConnect(conn net.Conn, to netip.AddrPort) error {
	if err := p.socksGreet(conn); err != nil {
		return fmt.Errorf("%w: %w", ErrProxy, err)
	}
	request := []byte{socksVersion, socksConnectTo, 0, socksIPv4}
	if to.Addr().Is6() {
		request[3] = socksIPv6
	}
	request = append(request, to.Addr().AsSlice()...)
	request = binary.BigEndian.AppendUint16(request, to.Port())
	if _, err := conn.Write(request); err != nil {
		return fmt.Errorf("%w: %w", ErrProxy, err)
	}
	var reply [5]byte // version, reason, 0, then the type and the first byte of the address that the server uses
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return noReply(err)
	}
	rest, known := map[byte]int64{socksIPv4: 3 + 2, socksIPv6: 15 + 2, socksName: int64(reply[4]) + 2}[reply[3]]
	switch reason := int(reply[1]); {
	case reply[0] != socksVersion:
		return fmt.Errorf("%w: it speaks SOCKS %d", ErrProxy, reply[0])
	case reason == socksNotAllowed:
		return &refusalError{to: to, answer: "SOCKS: " + socksReplies[reason-1]}
	case reason >= socksGeneralError && reason <= len(socksReplies):
		return fmt.Errorf("SOCKS connect to %s: %s", to, socksReplies[reason-1])
	case reason != 0 || !known:
		return fmt.Errorf("SOCKS connect to %s: reply %d, address type %d", to, reason, reply[3])
	}
	if _, err := io.CopyN(io.Discard, conn, rest); err != nil {
		return fmt.Errorf("%w: %w", ErrProxy, err)
	}
	return nil
}

// socksGreet negotiates the authentication with a SOCKS server.
func (p *proxy) socksGreet(conn net.Conn) error {
	method := byte(socksNoAuth)
	if p.user != nil {
		method = socksPassword
	}
	if _, err := conn.Write([]byte{socksVersion, 1, method}); err != nil {
		return err
	}
	var reply [2]byte
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return err
	}
	if reply != [2]byte{socksVersion, method} {
		return fmt.Errorf("greeting answered with % x, want % x: another version, or it wants a user and password", reply, []byte{socksVersion, method})
	}
	if p.user == nil {
		return nil
	}
	name := p.user.Username()
	password, _ := p.user.Password()
	login := append([]byte{socksAuthVersion, byte(len(name))}, name...)
	login = append(append(login, byte(len(password))), password...)
	if _, err := conn.Write(login); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return err
	}
	if reply[1] != 0 {
		return errors.New("it wants another user and password")
	}
	return nil
}
