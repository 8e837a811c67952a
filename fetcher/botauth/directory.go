package botauth

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Directory is the answer that an origin gives to requests for DirectoryPath.
type Directory struct {
	Body []byte // exactly as signed
	// Header has Content-Type, Cache-Control, and a signature for each key, which proves that the keys belong to the
	// origin: Content-Digest, Signature-Input and Signature.
	Header http.Header
}

// DirectoryURL returns the URL of the directory of an agent.
func DirectoryURL(agent string) string {
	if u, err := url.Parse(agent); err == nil && u.Path == "" && u.RawQuery == "" {
		return agent + DirectoryPath
	}
	return agent
}

// Directory returns the directory of the keys, for one origin. The signatures are valid for the duration lifetime:
// after it, the directory must be made and published again. The error is ErrNoKey, or about the agent as that of
// NewSigner.
func (k Keys) Directory(agent string, now time.Time, lifetime time.Duration) (Directory, error) {
	authority, err := authorityOf(agent)
	if err != nil {
		return Directory{}, err
	}
	var set jwks
	var published Keys
	for _, key := range k {
		if key.published(now) {
			published = append(published, key)
			set.Keys = append(set.Keys, key.jwk())
		}
	}
	if len(published) == 0 {
		return Directory{}, ErrNoKey
	}
	body, err := json.Marshal(set)
	if err != nil {
		return Directory{}, err
	}
	sum := sha256.Sum256(body)
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	var inputs, signatures []string
	for i, key := range published {
		input, signature := sign(key.private, []component{
			{`"@authority";req`, authority},
			{`"content-digest"`, digest},
		}, params{created: now, expires: now.Add(lifetime), keyID: key.ID(), tag: directoryTag}.String())
		label := fmt.Sprintf("binding%d=", i)
		inputs, signatures = append(inputs, label+input), append(signatures, label+signature)
	}
	return Directory{body, http.Header{
		"Content-Type":    {DirectoryType},
		"Cache-Control":   {"max-age=86400"},
		"Content-Digest":  {digest},
		"Signature-Input": {strings.Join(inputs, ", ")},
		"Signature":       {strings.Join(signatures, ", ")},
	}}, nil
}
