package crawl

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/scrypt"

	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
)

// Of each header that may be secret, the policy has its name and a digest, never its value. The first process that has the
// header stores the digest. A process with another value is refused, until a Change with NewSecrets removes the digest.

// secretsSetting is the name of the secrets among the values of a version. It is no row of the table of settings.
const secretsSetting = "secrets"

// secrets are the headers that may be secret of a version of the policy.
type secrets struct {
	Salt    string                  `json:"salt"` // of this crawl, random
	Headers map[string]secretHeader `json:"headers"`
}

// secretHeader is what is stored of the value of a header, and by whom.
type secretHeader struct {
	Digest string    `json:"digest"` // see secretDigests.of
	Who    string    `json:"who"`
	Time   time.Time `json:"time"`
}

// secretsOf returns the secrets of a version, which can be nil.
func secretsOf(v *PolicyVersion) (s secrets, err error) {
	if v != nil && v.Values[secretsSetting] != "" {
		if err := json.Unmarshal([]byte(v.Values[secretsSetting]), &s); err != nil {
			return s, fmt.Errorf("version %d of the policy: secrets: %w", v.Number, err)
		}
	}
	if s.Headers == nil {
		s.Headers = make(map[string]secretHeader)
	}
	return s, nil
}

// shown returns the digest of a header for people. The zero secretHeader has none.
func (h secretHeader) shown(name string) string {
	if h.Digest == "" {
		return name + ": (no secret)"
	}
	return name + ": (secret " + h.Digest + ")"
}

// SecretError reports that a header of this process has another value than that of the crawl.
type SecretError struct {
	Crawl         string
	Header        string // its name; that of a header of Settings.Hosts begins with the pattern and a colon
	Stored, Given string // digests
	Who           string // who stored the digest
	Time          time.Time
}

// Error implements error.
func (e *SecretError) Error() string {
	return fmt.Sprintf("%s has another value of the header %s: its digest is %s, not %s; %s stored it at %s", e.Crawl, e.Header,
		e.Stored, e.Given, e.Who, e.Time.Format(time.RFC3339))
}

// Is reports whether target is frontier.ErrParamsMismatch.
func (e *SecretError) Is(target error) bool { return target == frontier.ErrParamsMismatch }

// privateValues returns the values of all headers of this process that may be secret, by their names. The name of a header of
// Settings.Hosts begins with the pattern and a colon.
func (p *Plan) privateValues() map[string]string {
	values := make(map[string]string)
	for name, lines := range p.Settings.Headers {
		if get.PrivateHeader(name) {
			values[http.CanonicalHeaderKey(name)] = strings.Join(lines, "\n")
		}
	}
	for _, host := range p.Settings.Hosts {
		for name, value := range host.Headers {
			values[host.Pattern+": "+http.CanonicalHeaderKey(name)] = value
		}
	}
	return values
}

// secretDigests remembers digests, each of which takes 0.1 s and 32 MB. The zero value works. It is safe for concurrent use.
type secretDigests struct {
	mu    sync.Mutex
	salt  string
	known map[string]string // by header
}

// of returns the digest of a header's value: four hexadecimal digits of a slow hash. They show that two values differ, and miss
// it once in 65,536 times. They do not confirm a guess: one of 65,536 words of any dictionary has the same.
func (d *secretDigests) of(salt, name, value string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.salt != salt || d.known == nil {
		d.salt, d.known = salt, make(map[string]string)
	}
	if d.known[name] == "" {
		key, err := scrypt.Key([]byte(value), []byte(salt+"\x00"+strings.ToLower(name)), 1<<15, 8, 1, 2)
		if err != nil {
			return "", err
		}
		d.known[name] = hex.EncodeToString(key)
	}
	return d.known[name], nil
}

// checkSecrets returns a *SecretError if a header of this process has another digest than in s. It also returns the
// digests of headers that s lacks.
func (ses *session) checkSecrets(s *secrets) (lacks map[string]string, err error) {
	lacks = make(map[string]string)
	values := ses.plan.privateValues()
	if ses.plan.Anyway {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		digest, err := ses.digests.of(s.Salt, name, values[name])
		if err != nil {
			return nil, err
		}
		switch stored, has := s.Headers[name]; {
		case !has:
			lacks[name] = digest
		case stored.Digest != digest:
			return nil, &SecretError{ses.plan.Location().String(), name, stored.Digest, digest, stored.Who, stored.Time}
		}
	}
	return lacks, nil
}

// settleSecrets stores the digests of headers of this process that the crawl does not have yet. It returns a *SecretError if
// one has another digest.
func (ses *session) settleSecrets(ctx context.Context) error {
	if len(ses.plan.privateValues()) == 0 {
		return nil
	}
	for {
		newest, err := ses.engine.LastVersion(ctx)
		if err != nil {
			return err
		}
		s, err := secretsOf(newest)
		if err != nil {
			return err
		}
		if s.Salt == "" {
			s.Salt = rand.Text()
		}
		lacks, err := ses.checkSecrets(&s)
		if err != nil || len(lacks) == 0 {
			return err
		}
		machine, _ := os.Hostname()
		v := nextVersion(newest, "a run on "+cmp.Or(machine, "an unknown machine"), "")
		for _, name := range slices.Sorted(maps.Keys(lacks)) {
			s.set(v, name, secretHeader{lacks[name], v.Who, v.Time})
		}
		added, err := ses.engine.AddVersion(ctx, v)
		if err != nil {
			return err
		}
		if added {
			return ses.adopt(v)
		}
	}
}

// set changes a header of s in a new version. A header without a digest is removed.
func (s *secrets) set(v *PolicyVersion, name string, to secretHeader) {
	v.Changes = append(v.Changes, Edit{Name: settings.HeaderName, From: s.Headers[name].shown(name), To: to.shown(name)})
	if s.Headers[name] = to; to.Digest == "" {
		delete(s.Headers, name)
	}
	text, _ := json.Marshal(s) // a map of texts has no error
	v.Values[secretsSetting] = string(text)
}

// forget removes the digests of headers in a new version, so that the next process that has one of them stores its own.
func forget(v, newest *PolicyVersion, names []string) error {
	s, err := secretsOf(newest)
	for _, name := range names {
		pattern, header, ofHost := strings.Cut(name, ": ")
		if !ofHost {
			pattern, header = "", name
		}
		name = http.CanonicalHeaderKey(header)
		if ofHost {
			name = pattern + ": " + name
		}
		if _, has := s.Headers[name]; !has && err == nil {
			err = fmt.Errorf("%w: the crawl has no digest of a header %q; it has %q", ErrRefused, name, slices.Sorted(maps.Keys(s.Headers)))
		}
		if err != nil {
			return err
		}
		s.set(v, name, secretHeader{})
	}
	return err
}

// nextVersion returns the version after the newest one, with its values.
func nextVersion(newest *PolicyVersion, who, why string) *PolicyVersion {
	v := &PolicyVersion{Number: numberOf(newest) + 1, Time: time.Now().UTC().Truncate(time.Second), Who: who, Why: why}
	v.Values = make(frontier.Settings)
	if newest != nil {
		maps.Copy(v.Values, newest.Values)
	}
	return v
}
