package get

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Defaults of Config.
const (
	DefaultTimeout        = 30 * time.Second
	DefaultDialTimeout    = 10 * time.Second
	DefaultHeaderTimeout  = 20 * time.Second
	DefaultMinRate        = 256 // what a crawl sets; Config.MinRate has no default
	DefaultRateWindow     = 10 * time.Second
	DefaultMaxBodyBytes   = 10 << 20
	DefaultMaxHeaderBytes = 256 << 10
	// DefaultMaxIdleConns suits a crawl of some hundred hosts at once. A process that
	// crawls more hosts should keep more connections, so that a host's connection is still
	// open when the next request to the host may be sent.
	DefaultMaxIdleConns        = 512
	DefaultMaxIdleConnsPerHost = 16
	DefaultIdleTimeout         = 30 * time.Second
)

// AnyType is the element of Config.Types that accepts every content type.
const AnyType = "*"

// HTMLTypes returns the content types of HTML, the default of Config.Types.
func HTMLTypes() []string { return []string{"text/html", typeXHTML} }

const typeXHTML = "application/xhtml+xml"

// Jar has cookies and logins, as a cookies.Jar does. It is called by many goroutines at once.
type Jar interface {
	// Add adds Cookie and Authorization for a URL to the header of a request.
	Add(header http.Header, u *url.URL)
	// Note reads Set-Cookie in the header of an answer. It reports whether it keeps a cookie.
	Note(u *url.URL, header http.Header) (kept bool)
}

// Signer signs requests, as a botauth.Signer does. It is called by many goroutines at once.
type Signer interface {
	// Sign adds a signature to the header of a request. The authority has no default port, and the path no query.
	Sign(header http.Header, method, authority, path string)
	// Note reads the header of an answer that refuses a request. It reports whether the server asks for another
	// signature, which the next request for the path will have.
	Note(authority, path string, header http.Header) (again bool)
}

// Config configures a Client. The zero value works.
type Config struct {
	UserAgent string // its first token selects the rules of robots.txt; empty means "crawler"
	// Headers are sent with every request. Private headers (PrivateHeader) are sent only
	// with requests that have Request.Private. The entry "Host" sets the Host header.
	Headers http.Header
	// Types are the wanted content types, in lower case, without parameters; nil means HTMLTypes.
	// An XHTML document with another type of XML counts as application/xhtml+xml too.
	Types   []string
	RootCAs *x509.CertPool // nil means the system's
	// InsecureHosts are patterns, as in Rule, of hosts whose certificates are not
	// verified. A pattern can match a server or the proxy.
	InsecureHosts []string

	Timeout       time.Duration // from connect to the last byte of the body; 0 means DefaultTimeout
	DialTimeout   time.Duration // for look-up and connection, and again for the TLS handshake; 0 means DefaultDialTimeout
	HeaderTimeout time.Duration // from writing the request to the end of the answer's header; 0 means DefaultHeaderTimeout
	// MinRate is the lowest allowed rate of a body, in bytes per second, as an average over
	// each RateWindow. The bytes are counted as received, before decompression. A slower body
	// ends with ErrTooSlow. 0 means that only Timeout limits slow bodies; see DefaultMinRate.
	MinRate    int64
	RateWindow time.Duration // the first window starts with the body; 0 means DefaultRateWindow

	MaxBodyBytes   int64 // decompressed; a longer body is cut; 0 means DefaultMaxBodyBytes
	MaxHeaderBytes int64 // a longer header is an error; 0 means DefaultMaxHeaderBytes

	// AllowPrivate allows every address to be dialled. Without it only public addresses
	// and those of AllowNet are allowed.
	AllowPrivate bool
	AllowNet     []netip.Prefix
	AllowPorts   []uint16 // allowed although CheckPort would refuse them
	ConnectTo    []Rule   // the first rule that matches the host sets the address, which is then allowed
	DNS          string   // IP address of the name server, with or without a port; empty means the system's
	// Proxy is the URL of the proxy of all connections, SCHEME://[USER:PASSWORD@]HOST[:PORT].
	// The scheme is http, https or socks5. The Client still looks up and checks names itself:
	// the proxy gets addresses, never names, and opens a tunnel (CONNECT) for http URLs too.
	// The proxy itself may have a private address.
	Proxy string
	// ProxyAbsolute sends http requests to the proxy in absolute form instead of through a tunnel, for proxies that open
	// tunnels to port 443 only. The Client still looks up and checks each name, but the proxy looks it up once more: a name
	// that changes its address can lead the proxy, not the Client, to an address that the guard refuses. Hosts of ConnectTo
	// and https URLs keep their tunnels. An answer that the proxy makes itself, except 407, counts as the host's, and
	// Response.Wire has no Remote. It needs an http or https proxy.
	ProxyAbsolute bool

	// Bind are the local addresses from which connections are made, in turn, those of the family of the host's
	// address; nil means that the system chooses. An address of a family without one is not connected to. With
	// Proxy, which makes the connections to hosts, Bind has no effect.
	Bind []netip.Addr

	MaxIdleConns        int           // idle connections in all; 0 means DefaultMaxIdleConns
	MaxIdleConnsPerHost int           // 0 means DefaultMaxIdleConnsPerHost
	IdleTimeout         time.Duration // 0 means DefaultIdleTimeout

	// Capture keeps requests and answers in Response.Wire, exactly as sent, for archives.
	// With Capture, requests ask for no coding except gzip, which all readers of archives
	// know.
	Capture bool

	// Signer, unless nil, signs each request, those for robots.txt and each redirect included, for its own authority.
	Signer Signer

	// Jar, unless nil, adds cookies and logins to requests, and keeps the cookies of answers.
	Jar Jar
	// LoggedOut, unless nil, matches the target of a redirect, or the first 64 KiB of a page, of a site where the crawler
	// is not logged in any more. Such an answer comes from a Wall.
	LoggedOut *regexp.Regexp
	// SaveCookies keeps the values of Set-Cookie in Response.Wire. Without it they are overwritten with the letter x.
	SaveCookies bool

	// Transport replaces the network in tests. The address guard, ConnectTo, DNS, Proxy
	// and Capture then have no effect.
	Transport http.RoundTripper

	// Wrap, unless nil, returns the RoundTripper that makes the requests. It is called once, with the RoundTripper
	// that would make them otherwise, which applies the address guard, the ports, ConnectTo and Proxy to every request,
	// also to a changed one. The limits hold for what Wrap returns. It receives requests as net/http makes them, with
	// URL.Path and URL.RawQuery; a URL that it does not change is sent byte for byte. It is called for each request,
	// those for robots.txt and each redirect included, by many goroutines at once, and must make at most one request.
	// A request that it answers itself is not in Response.Wire, and its host's delay begins with the answer.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// withDefaults returns c with defaults in place of zero values, and an error that
// names all faults of c.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"Timeout", int64(c.Timeout)}, {"DialTimeout", int64(c.DialTimeout)},
		{"HeaderTimeout", int64(c.HeaderTimeout)}, {"RateWindow", int64(c.RateWindow)},
		{"MinRate", c.MinRate}, {"MaxBodyBytes", c.MaxBodyBytes}, {"MaxHeaderBytes", c.MaxHeaderBytes},
		{"MaxIdleConns", int64(c.MaxIdleConns)}, {"MaxIdleConnsPerHost", int64(c.MaxIdleConnsPerHost)},
		{"IdleTimeout", int64(c.IdleTimeout)},
	} {
		if field.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %d, want 0 or more", field.name, field.value))
		}
	}
	for _, prefix := range c.AllowNet {
		if !prefix.IsValid() {
			errs = append(errs, errors.New("AllowNet has an invalid prefix"))
		}
	}
	if !httpguts.ValidHeaderFieldValue(c.UserAgent) {
		errs = append(errs, fmt.Errorf("UserAgent is %q, want no control characters", c.UserAgent))
	}
	for name, values := range c.Headers {
		errs = append(errs, CheckHeader(name, values...))
	}
	for _, t := range c.Types {
		if t != AnyType && t != parseMIMEType(t).essence {
			errs = append(errs, fmt.Errorf("type %q, want lower case type/subtype or %q", t, AnyType))
		}
	}
	c.UserAgent = cmp.Or(c.UserAgent, "crawler")
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.DialTimeout = cmp.Or(c.DialTimeout, DefaultDialTimeout)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, DefaultHeaderTimeout)
	c.RateWindow = cmp.Or(c.RateWindow, DefaultRateWindow)
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, DefaultMaxBodyBytes)
	c.MaxHeaderBytes = cmp.Or(c.MaxHeaderBytes, DefaultMaxHeaderBytes)
	c.MaxIdleConns = cmp.Or(c.MaxIdleConns, DefaultMaxIdleConns)
	c.MaxIdleConnsPerHost = cmp.Or(c.MaxIdleConnsPerHost, DefaultMaxIdleConnsPerHost)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	if c.Types == nil {
		c.Types = HTMLTypes()
	}
	return c, errors.Join(errs...)
}

// Check returns the error that New would return. It makes nothing.
func (c Config) Check() error {
	_, _, err := c.prepare()
	return err
}

func (c Config) prepare() (Config, *dialer, error) {
	c, err := c.withDefaults()
	d, dialerErr := newDialer(c)
	if err = errors.Join(err, dialerErr); err != nil {
		err = fmt.Errorf("get: %w", err)
	}
	return c, d, err
}

// CheckHeader returns an error for a header that cannot be sent. The error does not contain
// a value, which may be secret.
func CheckHeader(name string, values ...string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("header name %q is not a token", name)
	}
	for _, v := range values {
		if !httpguts.ValidHeaderFieldValue(v) {
			return fmt.Errorf("the value of header %s has control characters", name)
		}
	}
	return nil
}
