package webhook_test

import (
	"encoding/base64"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestGuide: the program in the guide compiles. An event that is delivered twice is
// handled once.
func TestGuide(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/guide/inbox.md")
	must(t, err)
	_, program, _ := strings.Cut(string(page), "```go\npackage main")
	program, _, found := strings.Cut(program, "```")
	if !found {
		t.Fatal("the guide has no program")
	}
	b := open(t).(*broker)
	dir := t.TempDir()
	main, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	must(t, os.WriteFile(main, []byte("package main"+strings.ReplaceAll(program, "127.0.0.1:8080", b.address)), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "secret"), base64.StdEncoding.AppendEncode(nil, secret), 0o600))
	if said, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, main).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	postgres := servers.Postgres(t, servers.PostgresOptions{})
	child := exec.CommandContext(t.Context(), binary)
	child.Dir, child.Env, child.Stderr = dir, append(os.Environ(), "DATABASE_URL="+postgres.DSN()), os.Stderr
	must(t, child.Start())
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()

	document := []byte(`{"specversion":"1.0","source":"urn:test","id":"k","type":"page.done","subject":"http://a/"}`)
	answered := 0
	for deadline := time.Now().Add(time.Minute); answered < 2; time.Sleep(10 * time.Millisecond) {
		if b.post(t, document) == http.StatusOK {
			answered++
		}
		if time.Now().After(deadline) {
			t.Fatalf("the program answered %d deliveries with 200 within a minute, want 2", answered)
		}
	}
	connection, err := pgx.Connect(t.Context(), postgres.DSN())
	must(t, err)
	defer connection.Close(t.Context())
	var urls []string
	must(t, connection.QueryRow(t.Context(), "SELECT array_agg(url) FROM pages").Scan(&urls))
	if len(urls) != 1 || urls[0] != "http://a/" {
		t.Errorf("the table has %q, want http://a/ once", urls)
	}
}
