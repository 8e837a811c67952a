package testweb

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// cornerWeb returns a small web with the given hardships.
func cornerWeb(t testing.TB, set Hardships) *Web {
	t.Helper()
	return newWeb(t, Config{Seed: *seed, Hosts: 5, Pages: 50, Hardships: set, MeanBytes: 500, MaxBodyBytes: leastCornerBody, Year: 2030, CanaryPort: 8099, KeepLog: true})
}

// A corner is a group of URLs of the test web that shows one hardship.

// TestCornerURLs checks that the test web recognises every URL of its corners, and finds the
// resource that the URL names.
func TestCornerURLs(t *testing.T) {
	w := cornerWeb(t, All|hasCorner)
	seen := map[string]bool{}
	for _, p := range w.corners.resources {
		to := target{kind: aResource, resource: p}
		if seen[p.url()] {
			t.Errorf("two resources have the URL %s", p.url())
		}
		seen[p.url()] = true
		if got := w.targetOf(p.url()); got != to {
			t.Errorf("targetOf(%q) = %+v, want %+v", p.url(), got, to)
		}
		if got := w.url(to); got != p.url() {
			t.Errorf("URL of the target of %s = %s, want the same URL", p.url(), got)
		}
		if isExpected := to.isExpected(); isExpected != (p.role != aside) {
			t.Errorf("%s is expected: %t, want %t", p.url(), isExpected, p.role != aside)
		}
		e, isExpected := w.Expect(p.url())
		if isExpected && (e.URL != p.url() || e.OrderFree == (len(e.Also) > 0)) {
			t.Errorf("Expect(%q) = %+v, want this URL, and either OrderFree or Also", p.url(), e)
		}
	}
	for _, url := range []string{
		"http://facets.corner.test/", "http://127.0.0.1/", "http://127.0.0.1:80/", "http://maps-many.corner.test/decoy", "http://nobody.corner.test/",
		"http://facets.corner.test:8099/shop", "https://facets.corner.test/shop",
	} {
		if e, isExpected := w.Expect(url); isExpected {
			t.Errorf("Expect(%q) = an expectation of %s, want none", url, e.URL)
		}
	}
}

// TestEachCornerStandsAlone makes a web for each hardship that has a corner. The web has no
// other hardship, apart from Sitemaps if it needs them. The page at the web's last seed URL must have a
// link to the corner.
func TestEachCornerStandsAlone(t *testing.T) {
	for _, h := range hardships() {
		if (h.corner != nil) != (hasCorner&h.bit != 0) {
			t.Errorf("%s has a corner: %t, but is in hasCorner: %t", h.name, h.corner != nil, hasCorner&h.bit != 0)
		}
		if h.corner == nil {
			continue
		}
		others := None
		if h.bit == LargeSitemaps {
			others = Sitemaps
		}
		w := cornerWeb(t, others|h.bit)
		entries := w.corners.entries[len(cornerWeb(t, others).corners.entries):]
		if len(entries) == 0 {
			t.Fatalf("no URL leads to the corner of %s", h.name)
		}
		index := w.Seeds()[len(w.Seeds())-1]
		if _, body := fetch(t, w, index); !bytes.Contains(body, []byte(entries[0])) {
			t.Errorf("the page %s has no link to the corner of %s", index, h.name)
		}
	}
}

// TestCornersAnswer requests every URL of the corners that has a finite body, until it
// no longer fails. The last answer must be the expected one.
func TestCornersAnswer(t *testing.T) {
	w := cornerWeb(t, Corners&^Codings)
	for _, p := range w.corners.resources {
		if p.isLive || p.role == closed || p.badStatus == noAnswer {
			continue
		}
		var response *http.Response
		var body []byte
		for range min(p.fails, 3) + 1 {
			response, body = fetch(t, w, p.url())
		}
		switch status := response.StatusCode; {
		case p.role == aside:
		case p.want.OrderFree && p.want.Status > 0 && status != p.want.Status:
			t.Errorf("%s answers %d, want %d", p.url(), status, p.want.Status)
		}
		digest, isRead := w.Digest(p.url())
		if e, isExpected := w.Expect(p.url()); isExpected && e.isRead != isRead {
			t.Errorf("the body of %s is read: %t, but has a digest: %t", p.url(), e.isRead, isRead)
		}
		if isRead && digest != fmt.Sprintf("%x", sha256.Sum256(body)) {
			t.Errorf("%s: Digest is not the SHA-256 of the body of %d bytes", p.url(), len(body))
		}
	}
}

// TestCodings decodes a body of each content coding. The decoded body must have the SHA-256
// that Digest returns.
func TestCodings(t *testing.T) {
	w, unpacked := cornerWeb(t, Codings), 0
	for _, path := range []string{"/gzip", "/brotli", "/zstd", "/members", "/listed", "/none"} {
		p := w.corners.sites["codings.corner.test"].resources[path]
		var out bytes.Buffer
		if err := p.packed(&out); err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(decoder(t, p.header.Get("Content-Encoding"), &out))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if digest, _ := w.Digest(p.url()); digest != fmt.Sprintf("%x", sha256.Sum256(plain)) {
			t.Errorf("%s unpacks to %q, whose SHA-256 is not %s", path, plain, digest)
		}
		unpacked++
	}
	if unpacked == 0 {
		t.Error("no body was unpacked")
	}
}

func decoder(t *testing.T, coding string, packed io.Reader) io.Reader {
	t.Helper()
	switch {
	case strings.HasSuffix(coding, "gzip"):
		z, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		return z
	case coding == "br":
		return brotli.NewReader(packed)
	case coding == "zstd":
		z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(z.Close)
		return z
	}
	return packed
}

// TestBombs unpacks the first 32 MiB of each bomb: a page that is huge, but very small on the
// wire. With -proof it unpacks more than a gigabyte. Each byte on the wire must give at least
// 500 unpacked bytes.
func TestBombs(t *testing.T) {
	w := cornerWeb(t, Bombs)
	for _, path := range []string{"/gzip", "/brotli", "/zstd"} {
		p := w.corners.sites["bombs.corner.test"].resources[path]
		reader, writer := io.Pipe()
		wire := &countingReader{from: reader}
		go func() { writer.CloseWithError(p.packed(writer)) }()
		plain := decoder(t, p.header.Get("Content-Encoding"), wire)
		begin := make([]byte, 200)
		if _, err := io.ReadFull(plain, begin); err != nil || !bytes.Contains(begin, []byte("<title>"+p.want.Title)) {
			t.Errorf("%s begins with %q (%v), want its title", path, begin, err)
		}
		least, ratio := int64(32<<20), int64(500) // at most 2 MiB on the wire for a gigabyte
		if *proof {
			least = 1 << 30
		} else {
			plain = io.LimitReader(plain, least)
		}
		n, err := io.Copy(io.Discard, plain)
		if err != nil || n < least || wire.n*ratio > n {
			t.Errorf("%s: %d bytes unpacked from %d on the wire (%v), want %d or more unpacked, and %d or more for each byte on the wire",
				path, n, wire.n, err, least, ratio)
		}
		_ = reader.Close()
		t.Logf("%s: %d bytes on the wire, %d unpacked", path, wire.n, n)
	}
}

type countingReader struct {
	from io.Reader
	n    int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// TestHugeRobotsIsCutWithinALine checks that the first 500 KiB of each very long robots.txt
// end within a line, directly after "Disallow: /".
func TestHugeRobotsIsCutWithinALine(t *testing.T) {
	w := cornerWeb(t, HugeRobots)
	for _, host := range []string{"robots-long", "robots-huge"} {
		_, body := fetch(t, w, "http://"+host+".corner.test/robots.txt")
		if len(body) <= robotsLimit || !bytes.HasSuffix(body[:robotsLimit], []byte("\nDisallow: /")) || !bytes.HasPrefix(body[robotsLimit:], []byte("across\n")) {
			t.Errorf("robots.txt of %s (%d bytes): the text at the limit is %q, want the limit right after \"Disallow: /\"",
				host, len(body), body[robotsLimit-20:robotsLimit+20])
		}
	}
}

// TestTrapsGoOn requests URLs of traps, such as an endless calendar, that are beyond the
// limits of a correct crawl. Each answer must have a further link. Such a URL must have no
// expected record, and the judge must report the request as a fault.
func TestTrapsGoOn(t *testing.T) {
	w := cornerWeb(t, Calendar|Facets|RepeatedPaths|LongURLs)
	for _, url := range []string{
		"http://calendar.corner.test/cal/2036/01/", "http://calendar.corner.test/cal?year=2099&month=12",
		"http://repeats.corner.test/" + strings.Repeat("a/b/", 5), "http://long.corner.test/" + strings.Repeat("x", 2048),
		"http://facets.corner.test/shop?f0=a" + strings.Repeat("&f=1", 39),
	} {
		response, body := fetch(t, w, url)
		if response.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("<a href=")) {
			t.Errorf("%.80s answers %d %q, want 200 and a link", url, response.StatusCode, body)
		}
		if e, isExpected := w.Expect(url); isExpected {
			t.Errorf("Expect(%.80q) = %+v, want no expectation", url, e)
		}
		host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		v := w.Judge([]Request{{Host: host, Path: "/robots.txt"}, {Host: host, Path: "/" + path, Start: time.Second}}, Manners{})
		if v.Trapped != 1 || v.Unknown != 0 || v.Err() == nil {
			t.Errorf("verdict on a request for %.80s: %+v, want Trapped 1, Unknown 0 and an error", url, v)
		}
	}
	for reason, want := range map[string]uint64{"calendar": 3, "parameters": 32, "repeated_path": 1, "too_long": 3} {
		if got := w.Refused()[reason]; got != want {
			t.Errorf("%d links are refused as %s, want %d", got, reason, want)
		}
	}
}

// TestRefusedIsCompared checks that CompareRefused names each reason for which the number of
// refused links is wrong.
func TestRefusedIsCompared(t *testing.T) {
	w := cornerWeb(t, RobotsTags|Spellings)
	right := w.Refused()
	if err := w.CompareRefused(right); err != nil || right["nofollow"] == 0 || right["scheme"] == 0 {
		t.Errorf("CompareRefused(%v) = %v, want nil, and counts of nofollow and scheme", right, err)
	}
	right["nofollow"]++
	right["depth"] = 7
	delete(right, "scheme")
	err := w.CompareRefused(right)
	if err == nil || strings.Count(err.Error(), "refused as") != 3 {
		t.Errorf("CompareRefused with three differences: %v, want all three", err)
	}
}

// TestCornerRecordsAreJudged checks what Compare says about made-up records of corners,
// some right and some wrong.
func TestCornerRecordsAreJudged(t *testing.T) {
	w := cornerWeb(t, Everything)
	var right []map[string]any
	for e := range w.Expected() {
		r := map[string]any{"url": e.URL, "outcome": e.Outcome, "status": e.Status, "redirect_to": e.RedirectTo, "title": e.Title, "truncated": e.Truncated}
		if digest, isRead := w.Digest(e.URL); isRead {
			r["digest"] = "sha256:" + digest
		}
		right = append(right, r)
	}
	if report := compare(t, w, right); report.Err() != nil {
		t.Errorf("Compare of the expected records: %v", report.Err())
	}
	changed := func(url, field string, value any) []map[string]any {
		var all []map[string]any
		found := false
		for _, r := range right {
			if r["url"] == url {
				found = true
				changed := map[string]any{}
				for k, v := range r {
					changed[k] = v
				}
				changed[field] = value
				r = changed
			}
			all = append(all, r)
		}
		if !found {
			t.Fatalf("no record of %s is expected", url)
		}
		return all
	}
	with := func(url, outcome string) []map[string]any {
		return append(right[:len(right):len(right)], map[string]any{"url": url, "outcome": outcome, "status": 404})
	}
	for _, c := range []struct {
		name    string
		records []map[string]any
		isWrong bool
	}{
		{"robots.txt ignored", changed("http://robots-cr.corner.test/closed", "outcome", "ok"), true},
		{"obeys a robots.txt that was answered with 401", changed("http://robots-401.corner.test/open", "outcome", "robots"), true},
		{"a host whose robots.txt never comes", changed("http://robots-never.corner.test/", "outcome", "robots"), false},
		{"private address requested", changed("http://127.0.0.1:8099/", "outcome", "network"), true},
		{"bomb not cut", changed("http://bombs.corner.test/zstd", "truncated", false), true},
		{"read in the wrong charset", changed("http://charsets.corner.test/in/latin1", "title", "\ufffd"), true},
		{"a trap followed", with("http://calendar.corner.test/cal/2036/01/", "ok"), true},
		{"a decoy followed", with("http://links.corner.test/decoy/comment", "client_error"), true},
		{"a template's link followed", with("http://links.corner.test/perhaps/template", "ok"), false},
		{"a sitemap that does not exist requested", with("http://h000001.test/sitemap.xml", "client_error"), false},
		{"a sitemap found where none is", with("http://h000001.test/sitemap_index.xml", "ok"), true},
		{"robots.txt recorded", with("http://robots-cr.corner.test/robots.txt", "ok"), true},
	} {
		if c.name == "a template's link followed" {
			c.records[len(c.records)-1]["title"] = "Corner links.corner.test /perhaps/template"
			digest, _ := w.Digest("http://links.corner.test/perhaps/template")
			c.records[len(c.records)-1]["digest"], c.records[len(c.records)-1]["status"] = "sha256:"+digest, 200
		}
		report := compare(t, w, c.records)
		if (report.Err() != nil) != c.isWrong {
			t.Errorf("%s: Err() = %v, want an error: %t", c.name, report.Err(), c.isWrong)
		}
	}
}

// TestCornerRequestsAreJudged checks that requests for disallowed or unknown URLs
// of the corners are faults.
func TestCornerRequestsAreJudged(t *testing.T) {
	w := cornerWeb(t, Everything)
	for _, c := range []struct {
		host, path string
		want       Verdict
	}{
		{"robots-cr.corner.test", "/closed", Verdict{Disallowed: 1}},
		{"robots-never.corner.test", "/", Verdict{Disallowed: 1}},
		{"127.0.0.1", "/", Verdict{Disallowed: 1}},
		{"robots-moved-6.corner.test", "/closed", Verdict{}},
		{"robots-moved-6.corner.test", "/robots-3.txt", Verdict{}},
		{"links.corner.test", "/decoy/script", Verdict{Unknown: 1}},
		{"links.corner.test", "/sitemap.xml", Verdict{}},
	} {
		v := w.Judge([]Request{{Host: c.host, Path: "/robots.txt"}, {Host: c.host, Path: c.path, Start: time.Second}}, Manners{})
		if v.Disallowed != c.want.Disallowed || v.Unknown != c.want.Unknown || v.Trapped != 0 || v.Unannounced != 0 {
			t.Errorf("%s%s: %+v, want %+v", c.host, c.path, v, c.want)
		}
	}
}

// TestServeDNS looks up names through Go's resolver, and checks the addresses that each
// look-up returns.
func TestServeDNS(t *testing.T) {
	w := cornerWeb(t, Addresses)
	ctx, stop := context.WithCancel(t.Context())
	conn, err := ListenDNS(ctx)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.ServeDNS(ctx, conn) }()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	lookUp := func(name string) []netip.Addr {
		found, err := resolver.LookupNetIP(ctx, "ip", name+".")
		if dns := (*net.DNSError)(nil); err != nil && !(errors.As(err, &dns) && dns.IsNotFound) {
			t.Fatal(err)
		}
		return found
	}
	for _, c := range []struct{ name, want string }{
		{"nobody.addresses.invalid", "[]"},
		{"h000000.test", "[]"},
		{"rebound.addresses.invalid", "[127.8.0.1]"},
		{"rebound.addresses.invalid", "[127.0.0.1]"},
		{"rebound.addresses.invalid", "[127.0.0.1]"},
		{"turned.addresses.invalid", "[127.0.0.1]"},
		{"TURNED.addresses.invalid", "[127.8.0.1]"},
		{"loopback6.addresses.invalid", "[::1]"},
		{"nat64.addresses.invalid", "[64:ff9b::7f00:1]"},
	} {
		if got := fmt.Sprint(lookUp(c.name)); got != c.want {
			t.Errorf("addresses of %s are %s, want %s", c.name, got, c.want)
		}
	}
	if _, err := conn.WriteTo([]byte("no question"), conn.LocalAddr()); err != nil {
		t.Error(err)
	}
	lookUp("private.addresses.invalid") // the server still answers
	stop()
	if err := <-served; err != nil {
		t.Errorf("ServeDNS = %v, want nil", err)
	}
	if turned := w.Lookups()[Lookup{"turned.addresses.invalid", "A"}]; turned != 2 {
		t.Errorf("Lookups has %d look-ups of turned.addresses.invalid, want 2", turned)
	}
}

// TestCanariesSeeConnections checks that a canary reports a connection and closes
// it.
func TestCanariesSeeConnections(t *testing.T) {
	c, err := ListenCanaries()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Err(); err != nil {
		t.Errorf("Err before any connection: %v, want nil", err)
	}
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(c.Port)))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("a canary sent data, or left the connection open")
	}
	if err := errors.Join(conn.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if c.Err() == nil {
		t.Error("Err after a connection: nil, want an error")
	}
}

// TestStreamsEndWithTheirClient checks that an endless answer ends when its client
// disconnects.
func TestStreamsEndWithTheirClient(t *testing.T) {
	w := cornerWeb(t, Endless)
	for _, path := range []string{"http://endless.corner.test/text", "http://drip.corner.test/body", "http://pause.corner.test/body"} {
		ctx, goAway := context.WithCancel(t.Context())
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		request.RequestURI = strings.TrimPrefix(path, "http://"+request.Host)
		out := &leaving{ResponseRecorder: httptest.NewRecorder(), limit: 500, leave: goAway}
		w.Handler().ServeHTTP(out, request) // must return
		if out.Body.Len() < 500 {
			t.Errorf("%s ends after %d bytes, want 500 or more", path, out.Body.Len())
		}
		goAway()
	}
}

// leaving is a client that calls the function leave after it has received limit bytes.
type leaving struct {
	*httptest.ResponseRecorder
	limit int
	leave func()
}

func (l *leaving) Write(b []byte) (int, error) {
	n, err := l.ResponseRecorder.Write(b)
	if l.Body.Len() >= l.limit {
		l.leave()
	}
	return n, err
}

// TestExpectedCorners checks that WriteExpected writes the URLs of the corners, with
// digests.
func TestExpectedCorners(t *testing.T) {
	w := cornerWeb(t, Corners)
	var out bytes.Buffer
	if err := w.WriteExpected(&out); err != nil {
		t.Fatal(err)
	}
	read, written := 0, 0
	for line := range bytes.Lines(out.Bytes()) {
		var e Expectation
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if written++; e.BodySHA256 != "" {
			read++
		}
		if e.Optional {
			t.Errorf("the optional URL %s is written", e.URL)
		}
	}
	if read < 300 || written < read+50 {
		t.Errorf("%d lines, %d with digests; want 300 digests or more, and 50 more lines than digests", written, read)
	}
}
