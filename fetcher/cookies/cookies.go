// Package cookies has the cookies and the passwords that a crawl sends: those of files, and the cookies of answers.
//
// It owns the files, and which URL gets what (RFC 6265, by net/http/cookiejar with the public suffix list). It makes no
// request (package get), and writes nothing but the file of kept cookies.
package cookies

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/net/publicsuffix"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// Limits of what is kept of answers. Beyond them, the cookies of an answer are not kept.
const (
	MaxHosts   = 10_000
	MaxCookies = 50       // of a host
	MaxBytes   = 4 << 10  // of a name and a value
	maxFile    = 16 << 20 // bytes of a file
)

// Config configures a Jar.
type Config struct {
	// File has cookies in the format of Netscape, as browsers and curl export them; empty means none. They are sent
	// also if the answers' cookies are not kept, and never change.
	File string
	// Keep keeps the cookies of answers, for the host that set them: their attribute Domain counts only for the hosts
	// that match Domains (* stands for any characters).
	Keep    bool
	Domains []string
	// KeepFile is read by Open and written by Save, if Keep is set; empty means none. It has the format of File.
	KeepFile string
	// Logins is a file with a line for each host pattern, of which the first that matches counts: PATTERN basic
	// USER:PASSWORD, or PATTERN bearer TOKEN. They are sent with https, and with http if the pattern begins with http://.
	Logins string
}

// Jar has cookies and logins. It is safe for concurrent use.
type Jar struct {
	cfg    Config
	fixed  *cookiejar.Jar
	logins []login

	mu     sync.Mutex
	shared *cookiejar.Jar // of hosts whose attribute Domain counts
	hosts  map[string]*kept
}

// kept has the cookies that a host has set.
type kept struct {
	jar *cookiejar.Jar
	set map[string]*http.Cookie // by name and path, for the file
}

type login struct {
	pattern, header string
	plain           bool // also with http
}

// FileError reports a file that cannot be used. It has no part of a cookie or a password.
type FileError struct {
	File string
	Line int // 0 means the whole file
	Err  error
}

// Error implements error.
func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s: line %d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

func newJar() *cookiejar.Jar {
	jar, _ := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}) // it returns no error
	return jar
}

// Open reads the files. Those with secrets, which are all of them, must be readable by their owner only. A KeepFile
// that does not exist is made by Save. The error is a *FileError.
func Open(cfg Config) (*Jar, error) {
	j := &Jar{cfg: cfg, fixed: newJar(), shared: newJar(), hosts: make(map[string]*kept)}
	now := time.Now()
	if cfg.File != "" {
		err := readLines(cfg.File, func(line string) error {
			u, c, err := parseLine(line)
			if err == nil && c != nil {
				j.fixed.SetCookies(u, []*http.Cookie{c})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if cfg.Keep && cfg.KeepFile != "" {
		err := readLines(cfg.KeepFile, func(line string) error {
			u, c, err := parseLine(line)
			if err == nil && c != nil {
				j.keep(u, c, true, now)
			}
			return err
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	if cfg.Logins != "" {
		if err := readLines(cfg.Logins, j.addLogin); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// readLines calls line for each line of a file that only its owner can read.
func readLines(name string, line func(text string) error) error {
	f, err := os.Open(name)
	if err != nil {
		return &FileError{File: name, Err: errors.Unwrap(err)}
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return &FileError{File: name, Err: err}
	} else if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return &FileError{File: name, Err: fmt.Errorf("others than its owner can read it (mode %04o): chmod 600 it", mode)}
	}
	lines := bufio.NewScanner(io.LimitReader(f, maxFile))
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimRight(lines.Text(), "\r")
		if err := line(text); err != nil {
			return &FileError{name, n, err}
		}
	}
	if err := lines.Err(); err != nil {
		return &FileError{File: name, Err: err}
	}
	return nil
}

const httpOnly = "#HttpOnly_"

// parseLine returns a cookie of the format of Netscape, and a URL of the host that set it. The cookie is nil for a line
// without one.
func parseLine(line string) (*url.URL, *http.Cookie, error) {
	line, isHTTPOnly := strings.CutPrefix(line, httpOnly)
	if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
		return nil, nil, nil
	}
	fields := strings.Split(line, "\t")
	if len(fields) == 6 {
		fields = append(fields, "") // a cookie without a value
	}
	if len(fields) != 7 {
		return nil, nil, fmt.Errorf("it has %d fields, want 7: domain, subdomains, path, secure, expires, name, value, with tabs between", len(fields))
	}
	expires, err := strconv.ParseFloat(fields[4], 64)
	host := strings.TrimPrefix(strings.ToLower(fields[0]), ".")
	subdomains, isBool := isTrue(fields[1])
	secure, isBool2 := isTrue(fields[3])
	if err != nil || !isBool || !isBool2 || host == "" || !strings.HasPrefix(fields[2], "/") || fields[5] == "" {
		return nil, nil, errors.New("want a domain, TRUE or FALSE, a path that begins with a slash, TRUE or FALSE, a number of seconds, a name and a value")
	}
	c := &http.Cookie{Name: fields[5], Value: fields[6], Path: fields[2], Secure: secure, HttpOnly: isHTTPOnly}
	if expires > 0 {
		c.Expires = time.Unix(int64(expires), 0)
	}
	if subdomains {
		c.Domain = host
	}
	u := &url.URL{Scheme: "https", Host: host, Path: fields[2]}
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		u.Host = "[" + host + "]"
	}
	return u, c, nil
}

func isTrue(text string) (value, valid bool) {
	return strings.EqualFold(text, "TRUE"), strings.EqualFold(text, "TRUE") || strings.EqualFold(text, "FALSE")
}

// formatLine is the reverse of parseLine.
func formatLine(host string, c *http.Cookie) string {
	word := func(yes bool) string { return strings.ToUpper(strconv.FormatBool(yes)) }
	prefix, expires := "", int64(0)
	if c.HttpOnly {
		prefix = httpOnly
	}
	if !c.Expires.IsZero() {
		expires = c.Expires.Unix()
	}
	domain := host
	if c.Domain != "" {
		domain = "." + strings.TrimPrefix(c.Domain, ".")
	}
	return prefix + strings.Join([]string{domain, word(c.Domain != ""), c.Path, word(c.Secure), strconv.FormatInt(expires, 10), c.Name, c.Value}, "\t")
}

// addLogin reads a line of Config.Logins.
func (j *Jar) addLogin(line string) error {
	fields := strings.Fields(line)
	if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
		return nil
	}
	if len(fields) != 3 {
		return fmt.Errorf("it has %d words, want 3: PATTERN basic USER:PASSWORD, or PATTERN bearer TOKEN", len(fields))
	}
	pattern, plain := strings.CutPrefix(fields[0], "http://")
	l := login{pattern: strings.ToLower(pattern), plain: plain}
	switch strings.ToLower(fields[1]) {
	case "basic":
		if !strings.Contains(fields[2], ":") {
			return errors.New("want USER:PASSWORD after basic")
		}
		l.header = "Basic " + base64.StdEncoding.EncodeToString([]byte(fields[2]))
	case "bearer":
		l.header = "Bearer " + fields[2]
	default:
		return errors.New("want basic or bearer as the second word")
	}
	j.logins = append(j.logins, l)
	return nil
}

// Add adds the cookies for a URL to Cookie in a header, and sets Authorization if the header has none.
func (j *Jar) Add(header http.Header, u *url.URL) {
	cookies := j.fixed.Cookies(u)
	if j.cfg.Keep {
		j.mu.Lock()
		if host := j.hosts[u.Hostname()]; host != nil {
			cookies = replace(cookies, host.jar.Cookies(u))
		}
		if j.sharesDomain(u.Hostname()) {
			cookies = replace(cookies, j.shared.Cookies(u))
		}
		j.mu.Unlock()
	}
	var pairs []string
	if given := header.Get("Cookie"); given != "" {
		pairs = append(pairs, given)
	}
	for _, c := range cookies {
		pairs = append(pairs, c.Name+"="+c.Value)
	}
	if len(pairs) > 0 {
		header.Set("Cookie", strings.Join(pairs, "; "))
	}
	if header.Get("Authorization") != "" {
		return
	}
	for _, l := range j.logins {
		if get.MatchHost(l.pattern, u.Hostname()) && (u.Scheme == "https" || l.plain) {
			header.Set("Authorization", l.header)
			return
		}
	}
}

// replace returns the cookies of older and newer, but of a name only the newer one.
func replace(older, newer []*http.Cookie) []*http.Cookie {
	older = slices.DeleteFunc(older, func(c *http.Cookie) bool {
		return slices.ContainsFunc(newer, func(n *http.Cookie) bool { return n.Name == c.Name })
	})
	return append(older, newer...)
}

func (j *Jar) sharesDomain(host string) bool {
	return slices.ContainsFunc(j.cfg.Domains, func(pattern string) bool { return get.MatchHost(strings.ToLower(pattern), host) })
}

// Note keeps the cookies of an answer. It reports whether it keeps any.
func (j *Jar) Note(u *url.URL, header http.Header) (kept bool) {
	if !j.cfg.Keep || len(header["Set-Cookie"]) == 0 {
		return false
	}
	now := time.Now()
	for _, c := range (&http.Response{Header: header}).Cookies() {
		kept = j.keep(u, c, j.sharesDomain(u.Hostname()), now) || kept
	}
	return kept
}

// keep keeps one cookie that the host of u has set. Its attribute Domain counts if shares is set.
func (j *Jar) keep(u *url.URL, c *http.Cookie, shares bool, now time.Time) bool {
	if len(c.Name)+len(c.Value) > MaxBytes {
		return false
	}
	if c.MaxAge > 0 { // for the file
		c.Expires = now.Add(time.Duration(min(c.MaxAge, 400*24*3600)) * time.Second)
	}
	if c.Path == "" || c.Path[0] != '/' {
		c.Path = defaultPath(u)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	name := u.Hostname()
	if !shares {
		c.Domain = ""
	}
	host := j.hosts[name]
	if host == nil {
		if len(j.hosts) >= MaxHosts {
			return false
		}
		host = &kept{newJar(), make(map[string]*http.Cookie)}
		j.hosts[name] = host
	}
	key := c.Name + "\x00" + c.Path
	over := c.MaxAge < 0 || !c.Expires.IsZero() && !c.Expires.After(now)
	if _, known := host.set[key]; !known && (over || len(host.set) >= MaxCookies) {
		return false
	}
	if delete(host.set, key); !over {
		host.set[key] = c
	}
	if c.Domain != "" {
		j.shared.SetCookies(u, []*http.Cookie{c})
	} else {
		host.jar.SetCookies(u, []*http.Cookie{c})
	}
	return true
}

// defaultPath is the path of a cookie without one (RFC 6265, 5.1.4).
func defaultPath(u *url.URL) string {
	if slash := strings.LastIndexByte(u.Path, '/'); slash > 0 {
		return u.Path[:slash]
	}
	return "/"
}

// Save writes the kept cookies to Config.KeepFile, which only its owner can read, if it is set. Cookies that end with
// the session of a browser are kept, too.
func (j *Jar) Save() error {
	if !j.cfg.Keep || j.cfg.KeepFile == "" {
		return nil
	}
	var lines []string
	now := time.Now()
	j.mu.Lock()
	for name, host := range j.hosts {
		for _, c := range host.set {
			if c.Expires.IsZero() || c.Expires.After(now) {
				lines = append(lines, formatLine(name, c))
			}
		}
	}
	j.mu.Unlock()
	slices.Sort(lines)
	var text bytes.Buffer
	fmt.Fprintf(&text, "# Netscape HTTP Cookie File\n%s\n", strings.Join(lines, "\n"))
	return durable.ReplacePrivate(vfs.Default, j.cfg.KeepFile, func(w io.Writer) error {
		_, err := w.Write(text.Bytes())
		return err
	})
}
