package canon

import (
	"slices"
	"strings"
)

// Step is one change on the way from a reference to its canonical form.
type Step struct {
	Rule   Rule   `json:"rule"`
	Detail string `json:"detail,omitempty"` // with RuleStripped: the names of the parameters
	Before string `json:"before"`
	After  string `json:"after"`
}

// Rule says in words what a Step did.
type Rule string

// The rules, in the order in which they are applied.
const (
	RuleSpace       Rule = "white space removed"        // and control characters around the reference
	RuleScheme      Rule = "scheme added"               // of a seed without one
	RuleJoined      Rule = "joined with the page's URL" // a relative reference
	RuleSlashes     Rule = "slashes straightened"       // "\" becomes "/", and two "/" precede the host
	RuleRoot        Rule = "root path added"            // "http://h" becomes "http://h/"
	RuleUserinfo    Rule = "user and password removed"
	RuleLowerCase   Rule = "scheme and host lower-cased"
	RuleFinalDot    Rule = "dot after the host removed"
	RuleHost        Rule = "host name by IDNA"         // and its escapes decoded
	RuleAddress     Rule = "address in its usual form" // IPv4 and IPv6 in unusual spellings
	RuleDefaultPort Rule = "default port removed"      // or an empty one: "http://h:/"
	RulePort        Rule = "zeros before the port removed"
	RuleEscapes     Rule = "percent-encoding"
	RuleFragment    Rule = "fragment removed"
	RuleDots        Rule = "dot segments resolved"
	RuleStripped    Rule = "parameters stripped"
	RuleSorted      Rule = "query sorted"
	RuleEmptyQuery  Rule = "empty query removed"
	RuleOther       Rule = "URL standard" // any other change
)

// Explain returns what Join(base, raw) does to raw, step by step. Step.Before
// equals Step.After of the previous step. Step.After of the last step is the URL.
// The URL and the error are those of Join. If there is an error, the steps lead to
// the text that was refused. If raw is canonical, there are no steps.
func (c *Canonicalizer) Explain(raw string, base URL) ([]Step, URL, error) {
	e := explainer{c: c, text: raw}
	e.step(RuleSpace, "", dropSpace(trim(raw)))
	e.step(RuleJoined, "", absolute(base, e.text))
	u, err := c.Join(base, raw)
	if err != nil {
		return e.steps, URL{}, err
	}
	e.normalise(u)
	e.step(RuleOther, "", u.s)
	return e.steps, u, nil
}

// ExplainSeed is Explain for ParseSeed.
func (c *Canonicalizer) ExplainSeed(raw string) ([]Step, URL, error) {
	e := explainer{c: c, text: raw}
	e.step(RuleSpace, "", trim(raw))
	e.step(RuleScheme, "", addScheme(e.text))
	steps, u, err := c.Explain(e.text, URL{})
	return append(e.steps, steps...), u, err
}

// explainer gathers the steps of one URL.
type explainer struct {
	c     *Canonicalizer
	text  string // the reference after all steps so far
	steps []Step
}

// step adds a step from e.text to result, unless both are equal.
func (e *explainer) step(rule Rule, detail, result string) {
	if result != e.text {
		e.steps = append(e.steps, Step{Rule: rule, Detail: detail, Before: e.text, After: result})
		e.text = result
	}
}

// normalise adds the steps from e.text, an absolute URL without white space, to
// its canonical form u. It takes the new host from u.
func (e *explainer) normalise(u URL) {
	p := cutURL(e.text)
	p.path = strings.ReplaceAll(p.path, `\`, "/")
	e.step(RuleSlashes, "", p.String())
	if p.path == "" {
		p.path = "/"
	}
	e.step(RuleRoot, "", p.String())
	p.userinfo = ""
	e.step(RuleUserinfo, "", p.String())
	e.host(&p, u)
	p.path, p.query = escapePath(p.path), escapeQuery(p.query)
	e.step(RuleEscapes, "", p.String())
	// The fragment is removed after the escapes are made. Otherwise an unescaped space
	// before the fragment would be at the end of the text, and parsing would trim it.
	p.fragment = ""
	e.step(RuleFragment, "", p.String())
	p.path = resolveDots(p.path)
	e.step(RuleDots, "", p.String())
	names := e.c.stripped(&p)
	e.step(RuleStripped, strings.Join(names, ", "), p.String())
	if query := []byte(p.query); e.c.sort && len(query) > 0 {
		sortQuery(query[1:])
		p.query = string(query)
	}
	e.step(RuleSorted, "", p.String())
	if p.query == "?" {
		p.query = ""
	}
	e.step(RuleEmptyQuery, "", p.String())
}

// host adds the steps that lead to the scheme, host and port of u.
func (e *explainer) host(p *parts, u URL) {
	p.scheme = u.Scheme()
	p.host = lowerASCII(p.host)
	e.step(RuleLowerCase, "", p.String())
	rule := RuleHost
	switch {
	case isAddress(u.Host()):
		rule = RuleAddress
	case p.host == u.Host()+".":
		rule = RuleFinalDot
	}
	p.host = u.Host()
	e.step(rule, "", p.String())
	rule = RulePort
	if u.Port() == "" {
		p.port, rule = "", RuleDefaultPort
	} else {
		p.port = ":" + u.Port()
	}
	e.step(rule, "", p.String())
}

// stripped removes the parameters of the strip list from p and returns their
// names, each once.
func (c *Canonicalizer) stripped(p *parts) (names []string) {
	note := func(params, separator string) {
		for param := range strings.SplitSeq(params, separator) {
			name, _, _ := strings.Cut(param, "=")
			if c.strip.removes([]byte(param)) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	segments := strings.Split(p.path, "/")
	for i, segment := range segments {
		rest := string(c.strip.pathParams([]byte(segment), 0))
		if rest != segment {
			_, params, _ := strings.Cut(segment, ";")
			note(params, ";")
		}
		segments[i] = rest
	}
	p.path = strings.Join(segments, "/")
	if p.query == "" {
		return names
	}
	note(p.query[1:], "&")
	if query := c.strip.queryParams([]byte(p.query), 1); len(query) > 1 || p.query == "?" {
		p.query = string(query)
	} else {
		p.query = ""
	}
	return names
}

// parts are the parts of an absolute URL. Some include a separator.
type parts struct {
	scheme   string
	userinfo string // with "@"
	host     string
	port     string // with ":"
	path     string
	query    string // with "?"
	fragment string // with "#"
}

func (p *parts) String() string {
	return p.scheme + "://" + p.userinfo + p.host + p.port + p.path + p.query + p.fragment
}

// cutURL returns the parts of an absolute URL without white space.
func cutURL(s string) (p parts) {
	p.scheme, s, _ = cutScheme(s)
	s = strings.TrimLeft(s, `/\`)
	authority := s[:authorityLen(s)]
	s = s[len(authority):]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		p.userinfo, authority = authority[:at+1], authority[at+1:]
	}
	port := len(authority)
	if colon := strings.LastIndexByte(authority, ':'); colon > strings.LastIndexByte(authority, ']') {
		port = colon
	}
	p.host, p.port = authority[:port], authority[port:]
	if i := strings.IndexByte(s, '#'); i >= 0 {
		s, p.fragment = s[:i], s[i:]
	}
	if i := strings.IndexByte(s, '?'); i >= 0 {
		s, p.query = s[:i], s[i:]
	}
	p.path = s
	return p
}

// absolute prefixes ref with those parts of base that ref lacks. It does not
// resolve dot segments. It returns ref if ref is absolute or base is zero.
func absolute(base URL, ref string) string {
	if base.IsZero() {
		return ref
	}
	if scheme, rest, found := cutScheme(ref); found {
		twoSlashes := len(rest) > 1 && isSlash(rest[0]) && isSlash(rest[1])
		if twoSlashes || !strings.EqualFold(scheme, base.Scheme()) {
			return ref
		}
		ref = rest // "http:path" is relative, for compatibility with old pages
	}
	switch {
	case ref == "" || ref[0] == '#':
		return base.s + ref
	case ref[0] == '?':
		return base.withoutQuery() + ref
	case !isSlash(ref[0]):
		return base.directory() + ref
	case len(ref) > 1 && isSlash(ref[1]):
		return base.Scheme() + ":" + ref
	default:
		return base.Origin() + ref
	}
}

// addScheme adds the scheme that ParseSeed assumes to a trimmed seed.
func addScheme(seed string) string {
	if name, _, found := cutScheme(seed); hasScheme(seed) || found && isHTTP(name) {
		return seed
	}
	return "https://" + strings.TrimLeft(seed, "/")
}

// hasScheme reports whether a seed has "://" before its path, query and fragment.
func hasScheme(seed string) bool {
	scheme, _, found := strings.Cut(seed, "://")
	return found && !strings.ContainsAny(scheme, `/\?#`)
}

// lowerASCII returns s with its ASCII letters in lower case. It leaves all other letters to
// IDNA.
func lowerASCII(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = lower(b[i])
	}
	return string(b)
}

// dropSpace removes tabs and newlines, as the standard does inside a reference.
func dropSpace(s string) string { return strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s) }

// escapePath brings the escapes of a path to their canonical form.
func escapePath(path string) string {
	var buf []byte
	for i := 0; ; i++ {
		buf, i, _ = appendSegment(buf, path, i) // ended is always true, because path has no tabs or newlines
		if i >= len(path) {
			return string(buf)
		}
		buf = append(buf, path[i])
	}
}

// bare strips no parameters.
var bare = new(Canonicalizer)

// escapeQuery brings the escapes of a query, "?" included, to their canonical form.
func escapeQuery(query string) string {
	if len(query) < 2 {
		return query
	}
	b := builder{c: bare}
	buf, _ := b.appendQuery(nil, query[1:])
	return string(buf)
}

func resolveDots(path string) string {
	b := builder{c: bare}
	buf, _ := b.appendPath([]byte("/"), path[1:])
	return string(buf)
}
