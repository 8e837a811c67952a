package crawl

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

const (
	oldSecret = "Bearer first-Xq7kd93"
	newSecret = "Bearer second-Zr2mf81"
)

// secretConfig sets a header that may be secret, and one of a host.
func secretConfig(c Config, value string) Config {
	c.Settings.Robots, c.Settings.AllowPrivate = "ignore", true
	c.Settings.Headers = http.Header{"Authorization": {value}}
	c.Settings.Hosts = []Host{{Pattern: "*.api.test", Headers: map[string]string{"x-key": value + "-host"}}}
	return c
}

// storedBytes returns all that the stores of a crawl have.
func storedBytes(t *testing.T, c Config) []byte {
	t.Helper()
	var all bytes.Buffer
	err := filepath.WalkDir(c.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Redis != nil {
		options, err := redis.ParseURL(c.Redis.URL)
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(options)
		defer client.Close()
		keys, err := client.Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			all.WriteString(key)
			text, err := client.Dump(t.Context(), key).Result() // a short value is in it as it is
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(text)
			for field, value := range client.HGetAll(t.Context(), key).Val() {
				all.WriteString(field + value)
			}
		}
	}
	if c.Postgres != nil {
		conn, err := pgx.Connect(t.Context(), c.Postgres.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		var text string
		if err := conn.QueryRow(t.Context(), "SELECT schema_to_xml('crawler', true, false, '')::text").Scan(&text); err != nil {
			t.Fatal(err)
		}
		all.WriteString(text)
	}
	return all.Bytes()
}

// TestSecretsHaveDigests: the first run with a secret header stores its digest. A run with another value is told so, until the
// digest is forgotten; then the old value is refused. No store has a value.
func TestSecretsHaveDigests(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, c Config) {
		before, after := secretConfig(c, oldSecret), secretConfig(c, newSecret)
		openOnce(t, before)
		openOnce(t, before)
		h, err := Attach(t.Context(), c.Location())
		if err != nil {
			t.Fatal(err)
		}
		history, err := h.History(t.Context())
		if err != nil || len(history) != 1 || len(history[0].Changes) != 2 {
			t.Fatalf("the history is %+v (%v), want one version with two headers", history, err)
		}
		for i, want := range []string{"*.api.test: X-Key: (secret ", "Authorization: (secret "} {
			if to := history[0].Changes[i].To; !strings.HasPrefix(to, want) || len(to) != len(want)+len("0000)") {
				t.Errorf("change %d is to %q, want %q and a digest of 4 digits", i, to, want)
			}
		}
		_, err = Open(t.Context(), after)
		secret, is := errors.AsType[*SecretError](err)
		if !is || !errors.Is(err, frontier.ErrParamsMismatch) || secret.Header != "*.api.test: X-Key" || secret.Stored == secret.Given ||
			secret.Who == "" || time.Since(secret.Time) > time.Hour {
			t.Fatalf("another value: %v, want a SecretError", err)
		}
		if _, err := h.Change(t.Context(), Change{NewSecrets: []string{"Cookie"}, Who: "me"}); !errors.Is(err, ErrRefused) {
			t.Errorf("a header without a digest: error %v, want ErrRefused", err)
		}
		changed(t, h, Change{NewSecrets: []string{"authorization", "*.api.test: x-key"}, Who: "me"})
		openOnce(t, after)
		if _, err = Open(t.Context(), before); !errors.Is(err, frontier.ErrParamsMismatch) {
			t.Errorf("the old value: %v, want a SecretError", err)
		}
		anyway := before
		anyway.Anyway = true
		openOnce(t, anyway)
		stored := storedBytes(t, c)
		if !bytes.Contains(stored, []byte("(secret ")) {
			t.Error("the search finds no digest")
		}
		for _, value := range []string{oldSecret, newSecret} {
			if bytes.Contains(stored, []byte(strings.TrimPrefix(value, "Bearer "))) {
				t.Errorf("the stores have %q", value)
			}
		}
	})
}

// TestNewSecretStopsWorkers: a worker whose secret header has an old value stops with a SecretError.
func TestNewSecretStopsWorkers(t *testing.T) {
	t.Parallel()
	c := Config{Redis: &Redis{URL: servers.Redis(t, servers.RedisOptions{}).URL(), Name: "w"}, Dir: filepath.Join(t.TempDir(), "old"), Settings: small()}
	worker, err := Open(t.Context(), secretConfig(c, oldSecret))
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	done := worker.Feed() // it waits for seeds
	defer done(SeedCounts{})
	ended := make(chan error, 1)
	go func() {
		_, err := worker.Run(t.Context())
		ended <- err
	}()
	h, err := Attach(t.Context(), Location{Dir: filepath.Dir(c.Dir), Redis: c.Redis})
	if err != nil {
		t.Fatal(err)
	}
	changed(t, h, Change{NewSecrets: []string{"Authorization", "*.api.test: X-Key"}, Who: "me"})
	other := c
	other.Dir = filepath.Join(filepath.Dir(c.Dir), "new")
	openOnce(t, secretConfig(other, newSecret))
	select {
	case err := <-ended:
		if _, is := errors.AsType[*SecretError](err); !is {
			t.Errorf("the worker ended with %v, want a SecretError", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the worker has not ended after 30 s")
	}
}
