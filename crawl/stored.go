package crawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// The settings of several runs are combined here: those of this run, those that are stored with the crawl, and
// those in this process's own directory. settings.Kept says which is where. Secrets are not stored. The
// crawl has the names of the headers that may be secret, and digests: see secrets.go.

// Names of stored settings that are not rows of the table, and of settings with rules of their own.
const (
	formSetting    = "canonical-form"
	tokenSetting   = "product-token"   // the first word of the user agent, without its version
	exactSetting   = "exact-set"       // "postgres" if the exact keys of a crawl in Redis are in Postgres
	seedsSetting   = "seeds"           // a description of the seeds, from the time when the crawl was created
	ownSetting     = "own-flags"       // the settings that are kept Here and that the first run used
	privateSetting = "private-headers" // the headers of the first run that may be secret
	agentSetting   = "user-agent"
	portsSetting   = "allow-port" // early versions stored its value with the crawl
	proxySetting   = "proxy"
	rootsSetting   = "ca"
)

const sinkPostgres = "postgres"

// MissingError reports that the first run of a crawl used values that are not stored here, and
// that this run does not set.
type MissingError struct {
	Crawl   string
	Flags   []string // names of settings
	Headers []string // names of headers; those of Settings.Hosts begin with the pattern and a colon
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

// ownFile is the name of the file with the settings of a process's own directory.
const ownFile = "machine.json"

// ownSettings returns the settings in the directory of this process; nil means there are none.
func ownSettings(dir string) (frontier.Settings, error) {
	if dir == "" {
		return nil, nil
	}
	own, err := engine.ReadJSON[frontier.Settings](filepath.Join(dir, ownFile))
	if err != nil || own == nil {
		return nil, err
	}
	return *own, nil
}

// LiveError reports that a run sets settings of the policy of its crawl to other values. A change of the
// policy changes them for all workers: see Handle.Change.
type LiveError struct {
	Crawl  string
	Differ []frontier.SettingDiff // with the stored forms
}

// Error implements error.
func (e *LiveError) Error() string {
	var all []string
	for _, d := range e.Differ {
		all = append(all, fmt.Sprintf("%s is %s, not %s", d.Name, d.Stored, d.Given))
	}
	return fmt.Sprintf("%s has another policy: %s", e.Crawl, strings.Join(all, ", "))
}

// Is reports whether target is frontier.ErrParamsMismatch.
func (e *LiveError) Is(target error) bool { return target == frontier.ErrParamsMismatch }

// differing returns a *LiveError or, if the identity differs too, a *frontier.SettingsError with all that differs.
func (p *Plan) differing() error {
	identity, is := errors.AsType[*frontier.SettingsError](p.stored.Compare(p.identity()))
	if !is {
		return p.differs
	}
	for _, d := range p.differs.Differ {
		if d.Name != settings.HeaderName { // the identity has its User-Agent
			identity.Differ = append(identity.Differ, d)
		}
	}
	slices.SortFunc(identity.Differ, func(a, b frontier.SettingDiff) int { return strings.Compare(a.Name, b.Name) })
	return identity
}

// given reports whether this run sets a setting.
func (p *Plan) given(row *settings.Row) bool {
	return slices.Contains(p.Given, row.Name) || p.text(row) != defaultText(row)
}

// in returns where a setting is kept.
func (p *Plan) in(row *settings.Row) settings.Kept { return row.In(p.Redis != nil, p.Postgres != nil) }

// text returns the stored form of a setting of this run.
func (p *Plan) text(row *settings.Row) string { return row.Value(&p.Settings).Stored() }

// defaultText returns the stored form of a setting's default.
func defaultText(row *settings.Row) string {
	if row.Name == agentSetting {
		return row.Default + "/" + Version()
	}
	return row.Default
}

// normal returns the text that this program stores for a stored text, which may be that of an older version.
func normal(row *settings.Row, text string) (string, error) {
	value := row.Value(new(Settings))
	if err := value.Adopt(text); err != nil {
		return "", &settings.Error{Name: row.Name, Err: fmt.Errorf("the stored value is %q: %w", text, err)}
	}
	return value.Stored(), nil
}

// merge sets each setting that this run does not set to its stored value. It notes the sources of these
// values, and the values of this run that differ from stored ones which are not fixed. Its errors name each
// fault. One is a *MissingError if the crawl needs a value that is neither stored nor given.
func (p *Plan) merge(own frontier.Settings) (errs []error) {
	if p.stored == nil {
		return nil
	}
	from := map[settings.Kept]frontier.Settings{settings.Fixed: p.stored, settings.Later: p.stored, settings.Here: own}
	needed := textList(p.stored[ownSetting])
	if ports := textList(p.stored[portsSetting]); len(ports) > 0 {
		needed = append(needed, portsSetting)
		if p.Redis == nil { // the crawl's directory is this process's own
			from[settings.Here] = frontier.Settings{portsSetting: p.stored[portsSetting]}
		}
	}
	p.missing = p.checkMissing(needed, from[settings.Here])
	differs := new(LiveError)
	for _, row := range settings.Rows() {
		text, found := from[p.in(row)][row.Name]
		if p.version != nil {
			if changed, is := p.version.Values[row.Name]; is {
				text, found = changed, true
			}
		}
		if row.Name == agentSetting {
			if token := p.stored[tokenSetting]; !found && token != "" && token != row.Default {
				text, found = token+"/"+Version(), true
			}
			text = AgentNow(text)
		}
		if err := p.mergeOne(row, text, found, differs); err != nil {
			errs = append(errs, err)
		}
	}
	if differs.Crawl = p.Location().String(); differs.Differ != nil {
		p.differs = differs
	}
	return errs
}

// mergeOne sets one setting to its stored text, if this run does not set it. It adds a setting of the policy
// that this run sets to another value to differs.
func (p *Plan) mergeOne(row *settings.Row, text string, found bool, differs *LiveError) error {
	was, given := defaultText(row), p.given(row)
	if found {
		var err error
		if was, err = normal(row, text); err != nil {
			return err
		}
	}
	if found && !given || found && row.Name == settings.HeaderName && len(p.Settings.Headers) > 0 {
		if err := row.Value(&p.Settings).Adopt(text); err != nil {
			return err
		}
		if !given {
			p.sources[row.Name] = p.in(row)
		}
	}
	now, kept := p.text(row), p.in(row)
	if row.Who == settings.Live {
		if given && now != was && (found || kept != settings.Never) {
			differs.Differ = append(differs.Differ, frontier.SettingDiff{Name: row.Name, Stored: was, Given: now})
		}
		return nil
	}
	if given && now != was && (kept == settings.Later || kept == settings.Here && found) {
		p.overrides = append(p.overrides, Override{row.Name, was, now})
	}
	return nil
}

// checkMissing returns a *MissingError if one of the needed settings or headers is neither given nor
// among the settings of this process's own directory.
func (p *Plan) checkMissing(needed []string, own frontier.Settings) error {
	missing := &MissingError{Crawl: p.Location().String()}
	for _, row := range settings.Rows() {
		_, stored := own[row.Name]
		has := stored || p.given(row) || row.Name == rootsSetting && p.RootCAs != nil
		if p.in(row) == settings.Here && !has && slices.Contains(needed, row.Name) {
			missing.Flags = append(missing.Flags, row.Name)
		}
	}
	noHeaders := slices.Contains(p.Given, settings.HeaderName) && len(p.Settings.Headers) == 0
	given := p.privateNames()
	for _, name := range textList(p.stored[privateSetting]) {
		if !slices.Contains(given, name) && !(noHeaders && !strings.Contains(name, ":")) {
			missing.Headers = append(missing.Headers, name)
		}
	}
	if p.Anyway || missing.Flags == nil && missing.Headers == nil {
		return nil
	}
	return missing
}

// privateNames returns the sorted names of all headers that are not stored.
func (p *Plan) privateNames() []string { return slices.Sorted(maps.Keys(p.privateValues())) }

// identity returns the settings to store in a new crawl, or to compare with the stored
// ones. A crawl that exists keeps the defaults of later runs that it was created with.
func (p *Plan) identity() frontier.Settings {
	s := make(frontier.Settings)
	for _, row := range settings.Rows() {
		old, found := p.stored[row.Name]
		text := p.text(row)
		switch kept := p.in(row); {
		case p.stored != nil && row.Who == settings.Live: // what the policy has now is in its versions
			if found {
				s[row.Name] = old
			}
		case kept == settings.Fixed && found:
			if same, err := normal(row, old); err == nil && same == text {
				text = old
			}
			s[row.Name] = text
		case kept == settings.Later && found:
			s[row.Name] = old
		case kept == settings.Fixed && (p.stored == nil || text != defaultText(row)), kept == settings.Later && p.stored == nil && text != defaultText(row):
			s[row.Name] = text
		}
	}
	s[formSetting] = p.canon.Form()
	if _, found := p.stored[tokenSetting]; found || p.stored == nil {
		s[tokenSetting] = robots.ProductToken(p.userAgent())
	}
	if p.Redis != nil && p.Postgres != nil {
		s[exactSetting] = sinkPostgres
	}
	for _, name := range []string{ownSetting, privateSetting, portsSetting, seedsSetting} {
		if text, found := p.stored[name]; found {
			s[name] = text
		}
	}
	if p.stored == nil {
		p.addFirst(s)
	}
	return s
}

// addFirst adds what only the first run of a crawl stores.
func (p *Plan) addFirst(s frontier.Settings) {
	var used []string
	for _, row := range settings.Rows() {
		if p.in(row) == settings.Here && (p.text(row) != row.Default || row.Name == rootsSetting && p.RootCAs != nil) {
			used = append(used, row.Name)
		}
	}
	for name, names := range map[string][]string{ownSetting: used, privateSetting: p.privateNames()} {
		if len(names) > 0 {
			s[name] = settings.JSONList(names)
		}
	}
	if p.Redis == nil {
		s[seedsSetting] = p.SeedsText
		if s[seedsSetting] == "" {
			s[seedsSetting] = strings.Join(p.Seeds, " ")
		}
	}
}

// keepOwn stores the settings that are kept in this process's own directory. Those of its first run are
// kept. A later run adds what the crawl needs and the directory lacks.
func (ses *session) keepOwn() error {
	if ses.dir == "" {
		return nil
	}
	file := ses.file(ownFile)
	read, err := engine.ReadJSON[frontier.Settings](file)
	if err != nil {
		return err
	}
	own, changed := make(frontier.Settings), read == nil
	if read != nil {
		own = *read
	}
	needed := textList(ses.plan.stored[ownSetting])
	for _, row := range settings.Rows() {
		text := ses.plan.text(row)
		_, has := own[row.Name]
		if has || ses.plan.in(row) != settings.Here || text == row.Default || read != nil && !slices.Contains(needed, row.Name) {
			continue
		}
		switch {
		case row.Name == proxySetting && hasSecret(text):
			continue
		case row.Name == rootsSetting: // a later run can be started elsewhere
			if text, err = filepath.Abs(text); err != nil {
				return err
			}
		}
		own[row.Name], changed = text, true
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
