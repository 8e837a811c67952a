package postgres_test

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestGuide: the program in the guide compiles and runs. An order that is sent twice is stored
// once.
func TestGuide(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/guide/idempotency.md")
	must(t, err)
	_, program, _ := strings.Cut(string(page), "```go\npackage main")
	program, _, found := strings.Cut(program, "```")
	if !found {
		t.Fatal("the guide has no program")
	}
	dsn, err := server(t).NewDatabase(t.Context())
	must(t, err)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := free.Addr().String()
	dir := t.TempDir()
	main, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	must(t, os.WriteFile(main, []byte("package main"+strings.ReplaceAll(program, "127.0.0.1:8080", address)), 0o600))
	if said, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, main).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	must(t, free.Close())
	child := exec.CommandContext(t.Context(), binary)
	child.Env, child.Stderr = append(os.Environ(), "DATABASE_URL="+dsn), os.Stderr
	must(t, child.Start())
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()

	var replayed []string
	for deadline := time.Now().Add(time.Minute); len(replayed) < 2; time.Sleep(10 * time.Millisecond) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/orders", strings.NewReader("tea"))
		must(t, err)
		r.SetBasicAuth("shop", "")
		r.Header.Set("Idempotency-Key", `"8e03978e"`)
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusCreated && answer.Header.Get("Location") == "/orders/1" {
				replayed = append(replayed, answer.Header.Get("Idempotent-Replayed"))
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the program answered %d orders with 201 within a minute, want 2", len(replayed))
		}
	}
	if replayed[0] != "" || replayed[1] != "true" {
		t.Errorf("Idempotent-Replayed is %q, want true in the second answer only", replayed)
	}
	connection, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	defer connection.Close(t.Context())
	var n int
	must(t, connection.QueryRow(t.Context(), "SELECT count(*) FROM orders WHERE item = 'tea'").Scan(&n))
	if n != 1 {
		t.Errorf("the table has %d orders, want 1", n)
	}
}
