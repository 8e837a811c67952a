package botauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dunglas/httpsfv"
)

const (
	validity = time.Minute // of a signature, after its request was made
	label    = "sig1"      // of the signature, and of its member in Signature-Agent
	reread   = time.Minute // how often a Signer looks at its file
	// maxOrigins bounds the signatures and the nonces that a Signer keeps. With more, it forgets all.
	maxOrigins = 10_000
	maxNonce   = 1024 // bytes
)

// Signer signs requests. It is safe for concurrent use.
type Signer struct {
	file      string
	agent     string // the value of Signature-Agent's member
	agentLine string // the value of Signature-Agent
	reuse     time.Duration
	now       func() time.Time

	mu     sync.Mutex
	keys   Keys
	looked time.Time // at the file
	stamp  time.Time // of the file
	reused map[string]signed
	nonces map[string]string // by authority and path, for its next request
}

// signed is a signature that is used for all requests to an origin.
type signed struct {
	at               time.Time
	keyID            string
	input, signature string
}

// AgentError reports a --signature-agent that cannot be sent.
type AgentError struct{ Agent string }

// Error implements error.
func (e *AgentError) Error() string {
	return fmt.Sprintf("signature agent %q: want the https URL under which the keys are published, such as https://bot.example.org", e.Agent)
}

// NewSigner returns a Signer with the keys of a file (see Read). It reads the file again when it has changed, at most
// once a minute.
//
// The agent says where a site finds the public keys. It is an https URL: an origin, whose directory is at
// DirectoryPath, as sites that follow the drafts before -01 expect it, or the whole URL of a directory, as -01 has it.
// With a reuse of 0, each request is signed for its method, authority and path. Otherwise a signature is used for all
// requests to an authority for that time. That takes less processor time, but a third party that sees it can use it too.
//
// The error is a *FileError, an *AgentError, or ErrNoKey.
func NewSigner(file, agent string, reuse time.Duration) (*Signer, error) {
	return newSigner(file, agent, reuse, time.Now)
}

func newSigner(file, agent string, reuse time.Duration, now func() time.Time) (*Signer, error) {
	if _, err := authorityOf(agent); err != nil {
		return nil, err
	}
	s := &Signer{
		file: file, agent: quoted(agent), agentLine: label + "=" + quoted(agent), reuse: reuse, now: now,
		reused: map[string]signed{}, nonces: map[string]string{},
	}
	if err := s.read(now()); err != nil {
		return nil, err
	}
	_, err := s.keys.At(now())
	return s, err
}

// CheckAgent returns an *AgentError for an agent that cannot be sent.
func CheckAgent(agent string) error {
	_, err := authorityOf(agent)
	return err
}

// authorityOf returns the authority of an agent, in lower case, without the default port.
func authorityOf(agent string) (string, error) {
	u, err := url.Parse(agent)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" || u.Path == "/" ||
		strings.ContainsFunc(agent, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
		return "", &AgentError{agent}
	}
	return strings.TrimSuffix(strings.ToLower(u.Host), ":443"), nil
}

// read reads the file if it has changed. After an error the keys of before stay. The caller holds s.mu, or has s alone.
func (s *Signer) read(now time.Time) error {
	s.looked = now
	info, err := os.Stat(s.file)
	if err == nil && info.ModTime().Equal(s.stamp) {
		return nil
	}
	keys, err := Read(s.file)
	if err != nil {
		return err
	}
	s.keys, s.stamp = keys, info.ModTime()
	return nil
}

// Sign sets Signature, Signature-Input and Signature-Agent in the header of a request. The authority has no default
// port; the path is as sent, without the query. The signature is valid for a minute, or for the reuse and a minute.
// If no key is valid any more, it sets nothing.
func (s *Signer) Sign(header http.Header, method, authority, path string) {
	s.mu.Lock()
	now := s.now()
	if now.Sub(s.looked) >= reread || now.Before(s.looked) {
		_ = s.read(now) // a file that is just being replaced is read a minute later
	}
	key, err := s.keys.At(now)
	nonce, asked := s.nonces[authority+path]
	delete(s.nonces, authority+path)
	kept := s.reused[authority]
	s.mu.Unlock()
	if err != nil {
		return
	}
	if age := now.Sub(kept.at); asked || s.reuse == 0 || age < 0 || age >= s.reuse || kept.keyID != key.ID() {
		kept = s.sign(key, now, method, authority, path, nonce)
		if s.reuse > 0 && !asked {
			s.mu.Lock()
			if len(s.reused) >= maxOrigins {
				clear(s.reused)
			}
			s.reused[authority] = kept
			s.mu.Unlock()
		}
	}
	header["Signature-Agent"] = []string{s.agentLine}
	header["Signature-Input"] = []string{label + "=" + kept.input}
	header["Signature"] = []string{label + "=" + kept.signature}
}

func (s *Signer) sign(key *Key, now time.Time, method, authority, path, nonce string) signed {
	covered := []component{{`"@authority"`, authority}}
	if s.reuse == 0 {
		covered = []component{{`"@method"`, method}, {`"@authority"`, authority}, {`"@path"`, path}}
	}
	covered = append(covered, component{`"signature-agent";key="` + label + `"`, s.agent})
	keyID := key.ID()
	input, signature := sign(key.private, covered, params{created: now, expires: now.Add(s.reuse + validity), keyID: keyID, nonce: nonce, tag: requestTag}.String())
	return signed{now, keyID, input, signature}
}

// Note reads Accept-Signature in the header of an answer. If it asks for a nonce, the next request for the path has
// it. Note reports whether another request can succeed for that reason.
func (s *Signer) Note(authority, path string, header http.Header) (asksNonce bool) {
	values := header.Values("Accept-Signature")
	if len(values) == 0 {
		return false
	}
	nonce, err := nonceOf(values)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.nonces) >= maxOrigins {
		clear(s.nonces)
	}
	s.nonces[authority+path] = nonce
	return true
}

var errNoNonce = errors.New("no nonce is asked for")

// nonceOf returns the nonce that Accept-Signature asks for (RFC 9421, section 5.1).
func nonceOf(values []string) (string, error) {
	asked, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return "", err
	}
	for _, name := range asked.Names() {
		member, _ := asked.Get(name)
		list, ok := member.(httpsfv.InnerList)
		if !ok {
			continue
		}
		if tag, found := list.Params.Get("tag"); found && tag != requestTag {
			continue
		}
		value, _ := list.Params.Get("nonce")
		if nonce, ok := value.(string); ok && nonce != "" && len(nonce) <= maxNonce {
			return nonce, nil
		}
	}
	return "", errNoNonce
}
