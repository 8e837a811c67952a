package get

import (
	"maps"
	"net/http"
	"slices"
)

// publicHeaders are the headers that any host may see. All others are private, because
// there is no list of the names that sites use for keys and tokens.
var publicHeaders = map[string]bool{
	"Accept": true, "Accept-Charset": true, "Accept-Encoding": true, "Accept-Language": true,
	"Cache-Control": true, "Dnt": true, "From": true, "Pragma": true, "Referer": true,
	"Sec-Gpc": true, "Upgrade-Insecure-Requests": true, "User-Agent": true,
}

// PrivateHeader reports whether a header may be a secret between a user and the sites that
// the user names, such as Authorization, Cookie and X-Api-Key. It is true for every name
// that is not known to be harmless.
func PrivateHeader(name string) bool { return !publicHeaders[http.CanonicalHeaderKey(name)] }

// PrivateHeaders returns the sorted names of the private headers in Config.Headers.
func (c *Client) PrivateHeaders() []string { return slices.Sorted(maps.Keys(c.private)) }

// splitHeaders returns the headers of every request, with defaults, and the private ones.
// The header names in both results are canonical.
func splitHeaders(config Config) (public, private http.Header) {
	public = http.Header{
		"User-Agent":      {config.UserAgent},
		"Accept":          {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
		"Accept-Encoding": {"gzip, br, zstd"},
	}
	if config.Capture {
		public["Accept-Encoding"] = []string{"gzip"}
	}
	private = make(http.Header)
	for name, values := range config.Headers {
		name = http.CanonicalHeaderKey(name)
		if PrivateHeader(name) {
			private[name] = slices.Clone(values)
		} else {
			public[name] = slices.Clone(values)
		}
	}
	return public, private
}

// headerOf returns the header of a request, and its Host if that differs from the host of
// the URL. The caller must not change the header.
func (c *Client) headerOf(request Request) (header http.Header, host string) {
	private := request.Private && len(c.private) > 0
	if !private && len(request.Header) == 0 {
		return c.header, ""
	}
	header = maps.Clone(c.header)
	set := func(more http.Header) {
		for name, values := range more {
			if name = http.CanonicalHeaderKey(name); name == "Host" && len(values) > 0 {
				host = values[0]
			} else {
				header[name] = values
			}
		}
	}
	if private {
		set(c.private)
	}
	set(request.Header)
	return header, host
}
