package crawl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/human"
)

// Beside the settings in Fixed, a crawl has defaults for its later runs. A run can use other
// values, which do not change the stored ones. There are two kinds:
//
//   - What decides what is requested, as whom, and what is kept, is stored with the settings in
//     Fixed. Only values other than the program's defaults are stored.
//   - What concerns one machine, or lifts one of its guards, is stored in this process's own
//     directory. The crawl has only the names of those that its first run used.
//
// Secrets are not stored. The crawl has the names of the headers that may be secret.

// defaults returns the settings of c that are stored with the crawl, as defaults of later runs.
func (c *Config) defaults() []setting {
	r := &c.Requests
	all := []setting{
		{"rotate", "1GiB", (*size)(&c.Records.RotateBytes)},
		{"compress", "false", (*yes)(&c.Records.Compress)},
		{"links", "false", (*yes)(&c.Records.Links)},
		{"save", "none", choice{&c.Records.Save, savedAnswers}},
		{"field", "[]", (*fieldGroups)(&c.Fields)},
		{"text", "false", (*yes)(&c.Text)},
		{"rate", "0", (*factor)(&c.Rate)},
		{"bandwidth", "0", (*size)(&c.Bandwidth)},
		{"backoff", politeness.DefaultBackoffBase.String(), (*delay)(&c.Backoff)},
		{"backoff-max", politeness.DefaultBackoffMax.String(), (*delay)(&c.BackoffMax)},
		{"dead-after", strconv.Itoa(politeness.DefaultDeadAfter), number{field: &c.DeadAfter, noLimit: "0"}},
		{"timeout", get.DefaultTimeout.String(), (*delay)(&r.Timeout)},
		{"header-timeout", get.DefaultHeaderTimeout.String(), (*delay)(&r.HeaderTimeout)},
		{"min-rate", "256B", (*size)(&r.MinRate)},
		{"max-body", "10MiB", (*size)(&r.MaxBodyBytes)},
		{"retries", "3", number{field: &c.Retries, noLimit: "0"}},
		{"types", `["text/html","application/xhtml+xml"]`, (*list)(&r.Types)},
		{headerSetting, "[]", (*publicHeaders)(&r.Headers)},
		{agentSetting, "crawler/" + Version(), (*agent)(&c.Agent)},
		{"contact", "", (*words)(&c.Contact)},
		{"check-external", "false", (*yes)(&c.CheckExternal)},
		{"max-external", "10k", number{field: &c.MaxExternal, noLimit: "0", short: true}},
		{"max-queued", "0", (*human.Count)(&c.MaxQueued)},
		{"redis-wait", "0", number{field: &c.Wait}},
	}
	if c.Redis == nil { // a crawl in Redis with Postgres has it in Fixed
		all = append(all, setting{"window", "[]", (*list)(&c.Fixed.Windows)})
	}
	return all
}

// guards returns the settings of c that are stored in this process's own directory.
func (c *Config) guards() []setting {
	r := &c.Requests
	port := func(text string) (uint16, error) {
		n, err := strconv.ParseUint(text, 10, 16)
		return uint16(n), err
	}
	return []setting{
		{"connect-to", "[]", parsedList[get.Rule]{&r.ConnectTo, get.ParseConnectTo}},
		{"allow-private", "false", (*yes)(&r.AllowPrivate)},
		{proxySetting, "", (*words)(&r.Proxy)},
		{"dns", "", (*words)(&r.DNS)},
		{"allow-net", "[]", parsedList[netip.Prefix]{&r.AllowNet, netip.ParsePrefix}},
		{portsSetting, "[]", parsedList[uint16]{&r.AllowPorts, port}},
		{rootsSetting, "", (*words)(&c.CAFile)},
		{"insecure-host", "[]", (*list)(&r.InsecureHosts)},
	}
}

// DefaultNames returns the names of the settings that are stored as defaults of later runs: those
// that are stored with the crawl, and those that are stored only in a process's own directory. Their
// forms are those of the settings in Fixed.
func DefaultNames() (crawl, own []string) {
	return settingNames(new(Config).defaults()), settingNames(new(Config).guards())
}

// Names of stored settings that list names, and of settings with rules of their own.
const (
	ownSetting     = "own-flags"       // the settings of guards that the first run used
	privateSetting = "private-headers" // the headers of the first run that may be secret
	agentSetting   = "user-agent"
	headerSetting  = "header"
	portsSetting   = "allow-port" // early versions stored its value with the crawl
	proxySetting   = "proxy"
	rootsSetting   = "ca"
)

// MissingError reports that the first run of a crawl used values that are not stored here, and
// that this run does not set.
type MissingError struct {
	Crawl   string
	Flags   []string // names of settings
	Headers []string // names of headers; those of Config.Hosts begin with the pattern and a colon
}

// Error implements error.
func (e *MissingError) Error() string {
	var all []string
	for _, name := range e.Flags {
		all = append(all, "--"+name)
	}
	for _, name := range e.Headers {
		all = append(all, "the header "+name)
	}
	return fmt.Sprintf("%s was begun with %s, which this run lacks: such values are not stored with the crawl", e.Crawl, strings.Join(all, ", "))
}

// Override is a value of a run that differs from the one that is stored.
type Override struct{ Name, Stored, Given string }

// Overrides returns the settings of this run that differ from the stored defaults.
func (c *Crawl) Overrides() []Override { return c.ses.overrides }

// StoredHere returns the settings in the own directory of the process that runs the crawl from here.
// The keys are the names of the command's flags.
func StoredHere(ctx context.Context, l Location) (map[string]string, error) {
	backend, err := l.backend()
	if err != nil {
		return nil, err
	}
	return ownSettings(ctx, backend)
}

// ownFile is the name of the file with the settings of a process's own directory.
const ownFile = "machine.json"

func ownSettings(ctx context.Context, backend engine.Backend) (frontier.Settings, error) {
	dir, err := backend.Own(ctx)
	if err != nil || dir == "" {
		return nil, err
	}
	own, err := engine.ReadJSON[frontier.Settings](filepath.Join(dir, ownFile))
	if err != nil || own == nil {
		return nil, err
	}
	return *own, nil
}

// adopt sets each unset value of c to the one that is stored with the crawl, or in this process's
// own directory. It returns the values that differ from stored ones. The error is a *MissingError
// if the crawl needs a value that is neither stored nor set.
func (c *Config) adopt(stored, own frontier.Settings) (overrides []Override, err error) {
	if stored == nil {
		return nil, nil
	}
	stored, own = maps.Clone(stored), maps.Clone(own)
	if token := stored[tokenSetting]; token != "" && stored[agentSetting] == "" {
		stored[agentSetting] = token + "/" + Version()
	}
	needed := textList(stored[ownSetting])
	if ports := textList(stored[portsSetting]); len(ports) > 0 {
		needed = append(needed, portsSetting)
		if c.Redis == nil { // the crawl's directory is this process's own
			own = frontier.Settings{portsSetting: stored[portsSetting]}
		}
	}
	c.Requests.Headers = c.Requests.Headers.Clone() // because it is changed
	if c.Fixed.Windows == nil && slices.Contains(c.Given, "window") {
		c.Fixed.Windows = []string{} // not the stored ones
	}
	before := &Config{Redis: c.Redis}
	var errs []error
	adoptAll := func(settings, before []setting, stored frontier.Settings) {
		for i, s := range settings {
			override, err := c.adoptOne(s, before[i], stored)
			if err != nil {
				errs = append(errs, err)
			} else if override != nil {
				overrides = append(overrides, *override)
			}
		}
	}
	adoptAll(c.defaults(), before.defaults(), stored)
	adoptAll(c.guards(), before.guards(), own)
	return overrides, errors.Join(append(errs, c.checkMissing(needed, textList(stored[privateSetting])))...)
}

// adoptOne sets the setting s to its stored value, if the run does not set it. Otherwise it returns
// the difference, if there is one. It uses the setting before, of another Config, for the stored value.
func (c *Config) adoptOne(s, before setting, stored frontier.Settings) (*Override, error) {
	was := s.def
	text, found := stored[s.name]
	if found {
		if err := before.value.Set(text); err != nil {
			return nil, fmt.Errorf("crawl: the stored %s is %q: %w", s.name, text, err)
		}
		was = cmp.Or(before.value.String(), s.def)
	}
	given := s.value.String()
	set := slices.Contains(c.Given, s.name) || given != ""
	if found && (!set || s.name == headerSetting && given != "") {
		if err := s.value.Set(text); err != nil {
			return nil, err
		}
		given = s.value.String()
	}
	if given = cmp.Or(given, s.def); !set || given == was || !found && isGuard(s.name) {
		return nil, nil
	}
	return &Override{s.name, was, given}, nil
}

func isGuard(name string) bool { return slices.Contains(settingNames(new(Config).guards()), name) }

// checkMissing returns a *MissingError if one of the needed settings or headers is not set.
func (c *Config) checkMissing(needed, headers []string) error {
	missing := &MissingError{Crawl: c.Location().String()}
	for _, s := range c.guards() {
		has := slices.Contains(c.Given, s.name) || s.value.String() != "" || s.name == rootsSetting && c.Requests.RootCAs != nil
		if !has && slices.Contains(needed, s.name) {
			missing.Flags = append(missing.Flags, s.name)
		}
	}
	noHeaders := slices.Contains(c.Given, headerSetting) && len(c.Requests.Headers) == 0
	given := c.privateNames()
	for _, name := range headers {
		if !slices.Contains(given, name) && !(noHeaders && !strings.Contains(name, ":")) {
			missing.Headers = append(missing.Headers, name)
		}
	}
	if c.Anyway || missing.Flags == nil && missing.Headers == nil {
		return nil
	}
	return missing
}

// privateNames returns the names of all headers of c that are not stored.
func (c *Config) privateNames() (names []string) {
	for name := range c.Requests.Headers {
		if get.PrivateHeader(name) {
			names = append(names, http.CanonicalHeaderKey(name))
		}
	}
	for _, host := range c.Hosts {
		for name := range host.Headers {
			names = append(names, host.Pattern+": "+http.CanonicalHeaderKey(name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// addDefaults adds the defaults of later runs to the settings of the crawl. A crawl that exists
// keeps those that it was created with.
func (p *plan) addDefaults(to frontier.Settings) {
	if p.stored != nil {
		for _, name := range append(settingNames(p.defaults()), ownSetting, privateSetting, portsSetting) {
			if text, found := p.stored[name]; found {
				to[name] = text
			}
		}
		return
	}
	for _, s := range p.defaults() {
		if text := s.value.String(); text != "" && text != s.def {
			to[s.name] = text
		}
	}
	var used []string
	for _, s := range p.guards() {
		if text := s.value.String(); text != "" && text != s.def || s.name == rootsSetting && p.Requests.RootCAs != nil {
			used = append(used, s.name)
		}
	}
	for name, names := range map[string][]string{ownSetting: used, privateSetting: p.privateNames()} {
		if len(names) > 0 {
			to[name] = (*list)(&names).String()
		}
	}
}

// keepOwn stores the values of guards in this process's own directory. Those of its first run are
// kept. A later run adds what the crawl needs and the directory lacks.
func (ses *session) keepOwn() error {
	file := ses.file(ownFile)
	read, err := engine.ReadJSON[frontier.Settings](file)
	if err != nil {
		return err
	}
	own, changed := make(frontier.Settings), read == nil
	if read != nil {
		own = *read
	}
	needed := textList(ses.stored[ownSetting])
	for _, s := range ses.guards() {
		text := s.value.String()
		if _, has := own[s.name]; has || text == "" || text == s.def || read != nil && !slices.Contains(needed, s.name) {
			continue
		}
		switch {
		case s.name == proxySetting && hasSecret(text):
			continue
		case s.name == rootsSetting: // a later run can be started elsewhere
			if text, err = filepath.Abs(text); err != nil {
				return err
			}
		}
		own[s.name], changed = text, true
	}
	if !changed {
		return nil
	}
	return engine.WriteJSON(file, "  ", own)
}

// hasSecret reports whether the URL of a proxy may have a secret, which is not stored.
func hasSecret(proxy string) bool {
	u, err := url.Parse(proxy)
	if err != nil {
		return true
	}
	_, password := u.User.Password()
	return password || strings.Trim(u.Path, "/") != "" || u.RawQuery != ""
}

// textList returns the elements of a list in its stored form.
func textList(text string) (elements []string) {
	_ = json.Unmarshal([]byte(text), &elements)
	return elements
}

// yes is a bool. False means that it is unset.
type yes bool

func (y *yes) String() string {
	if *y {
		return "true"
	}
	return ""
}

func (y *yes) Set(text string) error {
	on, err := strconv.ParseBool(text)
	*y = yes(on)
	return err
}

// words is a text without rules.
type words string

func (w *words) String() string { return string(*w) }

func (w *words) Set(text string) error {
	*w = words(text)
	return nil
}

// size is a number of bytes, or -1, which is stored as 0.
type size int64

func (n *size) String() string {
	if *n == -1 {
		return "0"
	}
	bytes := human.Bytes(*n)
	return bytes.String()
}

func (n *size) Set(text string) error {
	if text == "0" {
		*n = -1
		return nil
	}
	var bytes human.Bytes
	err := bytes.Set(text)
	*n = size(bytes)
	return err
}

// agent is the User-Agent header.
type agent string

func (a *agent) String() string { return string(*a) }

func (a *agent) Set(text string) error {
	*a = agent(AgentNow(text))
	return nil
}

// AgentNow returns a stored User-Agent header as this program sends it: if the first word has a
// version, it is replaced with the program's.
func AgentNow(stored string) string {
	first, rest, more := strings.Cut(stored, " ")
	if name, _, versioned := strings.Cut(first, "/"); versioned {
		first = name + "/" + Version()
	}
	if more {
		first += " " + rest
	}
	return first
}

// publicHeaders are the headers that are not secret, as a list of texts NAME: VALUE. Set adds those
// whose names are missing.
type publicHeaders http.Header

func (h *publicHeaders) String() string {
	var lines []string
	for name, values := range *h {
		for _, value := range values {
			if !get.PrivateHeader(name) {
				lines = append(lines, http.CanonicalHeaderKey(name)+": "+value)
			}
		}
	}
	slices.Sort(lines)
	return (*list)(&lines).String()
}

func (h *publicHeaders) Set(text string) error {
	var lines []string
	err := json.Unmarshal([]byte(text), &lines)
	if *h == nil {
		*h = make(publicHeaders)
	}
	given := maps.Clone(*h)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if _, has := given[name]; !has {
			(*h)[name] = append((*h)[name], value)
		}
	}
	return err
}

// fieldGroups are the groups of fields, as JSON.
type fieldGroups []FieldGroup

func (g *fieldGroups) String() string {
	groups := slices.DeleteFunc(slices.Clone(*g), func(of FieldGroup) bool { return len(of.Fields) == 0 })
	if len(groups) == 0 {
		return ""
	}
	text, _ := json.Marshal(groups) // this cannot fail for strings
	return string(text)
}

func (g *fieldGroups) Set(text string) error { return json.Unmarshal([]byte(text), g) }

// parsedList is a list of values that have a text form, stored as JSON.
type parsedList[T any] struct {
	field *[]T
	parse func(text string) (T, error)
}

func (l parsedList[T]) String() string {
	var texts []string
	for _, value := range *l.field {
		texts = append(texts, fmt.Sprint(value))
	}
	return (*list)(&texts).String()
}

func (l parsedList[T]) Set(text string) error {
	var texts []string
	if err := json.Unmarshal([]byte(text), &texts); err != nil {
		return err
	}
	var values []T
	for _, text := range texts {
		value, err := l.parse(text)
		if err != nil {
			return err
		}
		values = append(values, value)
	}
	*l.field = values
	return nil
}
