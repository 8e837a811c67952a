package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// Version is one version of the policy of a crawl.
type Version struct {
	Number  uint64    `json:"number"` // 1 for the first change
	Time    time.Time `json:"time"`
	Who     string    `json:"who"`
	Why     string    `json:"why,omitempty"`
	Changes []Edit    `json:"changes"` // in the order of the table of settings
	// Values are the stored forms of all settings that were changed since the crawl was created. Only
	// the newest version has them.
	Values frontier.Settings `json:"values,omitempty"`
}

// Edit is the change of one setting, from and to a stored form.
type Edit struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Versions are the versions of the policy of a crawl.
type Versions interface {
	// NewestVersion returns the newest version that workers are told, or nil if the policy was never changed.
	NewestVersion(ctx context.Context) (*Version, error)
	// LastVersion is like NewestVersion. If Postgres has a later version, because AddVersion was interrupted or Redis
	// has lost it, LastVersion stores this one in Redis before it returns it.
	LastVersion(ctx context.Context) (*Version, error)
	// History returns the versions, oldest first, without Values. It lacks versions before the
	// last redisstore.KeptVersions ones.
	History(ctx context.Context) ([]Version, error)
	// AddVersion stores the version after the newest one, and returns when no crash can lose it. If the
	// result is false, another version is the newest one now.
	AddVersion(ctx context.Context, v *Version) (added bool, err error)
	// PublishVersion stores a version if the server has only older ones, because it has lost this one.
	PublishVersion(ctx context.Context, v *Version) error
}

// policyFile is the name of the file with the versions of an embedded crawl.
const policyFile = "policy.json"

// policyVersions is the content of policyFile.
type policyVersions struct {
	Format   int       `json:"format"`
	Versions []Version `json:"versions"` // oldest first
}

const policyFormat = 1

// readVersions returns the versions of an embedded crawl, oldest first.
func readVersions(dir string) ([]Version, error) {
	name := filepath.Join(dir, policyFile)
	read, err := ReadJSON[policyVersions](name)
	if err != nil || read == nil {
		return nil, err
	}
	if read.Format != policyFormat || len(read.Versions) == 0 {
		return nil, fmt.Errorf("%s has format %d and %d versions, this program reads format %d: %w",
			name, read.Format, len(read.Versions), policyFormat, frontier.ErrParamsMismatch)
	}
	return read.Versions, nil
}

// newestVersion returns the newest version of an embedded crawl, or nil.
func newestVersion(dir string) (*Version, error) {
	all, err := readVersions(dir)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[len(all)-1], nil
}

// NewestVersion implements Versions.
func (l *localEngine) NewestVersion(context.Context) (*Version, error) { return newestVersion(l.dir) }

// LastVersion implements Versions.
func (l *localEngine) LastVersion(context.Context) (*Version, error) { return newestVersion(l.dir) }

// History implements Versions.
func (l *localEngine) History(context.Context) ([]Version, error) {
	all, err := readVersions(l.dir)
	for i := range all {
		all[i].Values = nil
	}
	return all, err
}

// AddVersion implements Versions. This process has the lock of the directory.
func (l *localEngine) AddVersion(_ context.Context, v *Version) (added bool, err error) {
	all, err := l.History(context.Background())
	if err != nil {
		return false, err
	}
	if n := len(all); n > 0 && all[n-1].Number != v.Number-1 || n == 0 && v.Number != 1 {
		return false, nil
	}
	all = append(all, *v)
	all = all[max(len(all)-redisstore.KeptVersions, 0):]
	crash.Point("policy")
	if err := WriteJSON(filepath.Join(l.dir, policyFile), "  ", policyVersions{policyFormat, all}); err != nil {
		return false, err
	}
	crash.Point("policy stored")
	return true, nil
}

// PublishVersion implements Versions: the file of an embedded crawl loses nothing.
func (*localEngine) PublishVersion(context.Context, *Version) error { return nil }

// parseVersion parses the text of a version; "" means none.
func parseVersion(text string) (*Version, error) {
	if text == "" {
		return nil, nil
	}
	v := new(Version)
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return nil, fmt.Errorf("a version of the policy cannot be read: %w", err)
	}
	return v, nil
}

// texts returns a version as it is stored in Redis.
func (v *Version) texts() (redisstore.Version, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return redisstore.Version{}, err
	}
	shown := *v
	shown.Values = nil
	history, err := json.Marshal(shown)
	return redisstore.Version{Number: v.Number, Text: string(text), History: string(history)}, err
}

// NewestVersion implements Versions.
func (e *sharedEngine) NewestVersion(ctx context.Context) (*Version, error) {
	text, err := e.Store.NewestVersion(ctx)
	if err != nil {
		return nil, err
	}
	return parseVersion(text)
}

// policyRows returns the exact keys, whose server has the versions, too, or nil if there is none.
func (e *sharedEngine) policyRows() (*exactKeys, error) {
	if e.exact == nil && e.exactElsewhere {
		return nil, errElsewhere(e.server.String(), "versions of the policy")
	}
	return e.exact, nil
}

// LastVersion implements Versions.
func (e *sharedEngine) LastVersion(ctx context.Context) (*Version, error) {
	newest, err := e.NewestVersion(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := e.policyRows()
	if err != nil || keys == nil {
		return newest, err
	}
	texts, err := keys.Versions(ctx, 1)
	if err != nil || len(texts) == 0 {
		return newest, err
	}
	last, err := parseVersion(texts[0])
	if err != nil || newest != nil && newest.Number >= last.Number {
		return newest, err
	}
	return last, e.PublishVersion(ctx, last)
}

// History implements Versions.
func (e *sharedEngine) History(ctx context.Context) (all []Version, err error) {
	var texts []string
	if e.exact != nil {
		texts, err = e.exact.Versions(ctx, redisstore.KeptVersions)
	} else {
		var shown map[uint64]string
		shown, err = e.Store.Versions(ctx)
		texts = slices.Collect(maps.Values(shown))
	}
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		v, err := parseVersion(text)
		if err != nil {
			return nil, err
		}
		v.Values = nil
		all = append(all, *v)
	}
	slices.SortFunc(all, func(a, b Version) int { return cmp.Compare(a.Number, b.Number) })
	return all, nil
}

// AddVersion implements Versions. A version that Postgres has is not lost with the last writes of Redis, because
// LastVersion stores it again.
func (e *sharedEngine) AddVersion(ctx context.Context, v *Version) (added bool, err error) {
	texts, err := v.texts()
	if err != nil {
		return false, err
	}
	crash.Point("policy")
	keys, err := e.policyRows()
	switch {
	case err != nil:
		return false, err
	case keys == nil:
		return e.Store.AddVersion(ctx, texts, e.wait)
	}
	if added, err = keys.AddVersion(ctx, v.Number, texts.Text, redisstore.KeptVersions); err != nil || !added {
		return false, err
	}
	crash.Point("policy stored")
	return true, e.PublishVersion(ctx, v)
}

// PublishVersion implements Versions.
func (e *sharedEngine) PublishVersion(ctx context.Context, v *Version) error {
	texts, err := v.texts()
	if err == nil {
		_, err = e.Store.PublishVersion(ctx, texts)
	}
	return err
}

// storedVersion returns the newest version of the policy, or nil.
func (h *Server) storedVersion(ctx context.Context) (*Version, error) {
	text, err := redisstore.StoredVersion(ctx, h.config())
	if err != nil {
		return nil, h.explain(err)
	}
	return parseVersion(text)
}
