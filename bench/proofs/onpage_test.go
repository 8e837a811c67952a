package proofs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	library "github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// Environment variables of the program that TestOnPageKilled kills.
const (
	onPageSite  = "PROOFS_ONPAGE_SITE"
	onPageDSN   = "PROOFS_ONPAGE_DSN"
	onPageDir   = "PROOFS_ONPAGE_DIR"
	onPageDeath = "PROOFS_ONPAGE_DEATH" // "inside:N" or "behind:N": die inside or after the transaction of call N
)

// TestOnPageKilled repeatedly kills a program whose OnPage calls inbox.Once. The program
// dies inside the transaction, or after the commit but before the crawl stores the page's
// record. At the end, the program's table must have each record of the crawl once, with the
// id of the record's event.
func TestOnPageKilled(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(newSeed(t), 1))
	pages, kills := sized(40, 2000), sized(8, 300)
	site := treeSite(pages)
	defer site.Close()
	dsn := servers.Postgres(t, servers.PostgresOptions{}).DSN()
	pool := effectTable(t, dsn)
	dir := filepath.Join(t.TempDir(), "site.crawl")
	killed := 0
	for ended := false; !ended; {
		program := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestOnPageProgram$")
		program.Env = append(os.Environ(), onPageSite+"="+site.URL, onPageDSN+"="+dsn, onPageDir+"="+dir)
		if killed < kills {
			where := []string{"inside", "behind"}[rng.IntN(2)]
			program.Env = append(program.Env, fmt.Sprintf("%s=%s:%d", onPageDeath, where, 1+rng.IntN(max(1, 2*pages/kills))))
		}
		said, err := program.CombinedOutput()
		exit, failed := errors.AsType[*exec.ExitError](err)
		switch {
		case err == nil:
			ended = true
		case failed && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
			killed++
		default:
			t.Fatalf("the program ended with %v:\n%s", err, said)
		}
	}
	figure(t, "kills", "%d", killed)
	figure(t, "pages", "%d", pages)
	if killed < kills/2 {
		t.Errorf("%d kills, want at least %d", killed, kills/2)
	}
	want := eventsOf(t, filepath.Join(dir, "pages.jsonl"))
	if len(want) != pages {
		t.Errorf("%d records, want %d", len(want), pages)
	}
	compareEffects(t, pool, "", want)
}

func treeSite(pages int) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := 0
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n) // the root is 0
		w.Header().Set("Content-Type", "text/html")
		for _, child := range []int{2*n + 1, 2*n + 2} {
			if child < pages {
				fmt.Fprintf(w, `<a href="/%d">x</a>`, child)
			}
		}
	}))
}

// effectTable makes the tables of an inbox, and the table effect, to which the handler
// adds rows.
func effectTable(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if _, err := inbox.Migrate(t.Context(), db, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "CREATE TABLE effect (event text, url text)"); err != nil {
		t.Fatal(err)
	}
	return pool
}

// compareEffects compares the table effect with the map want, which has the URLs by the
// ids of their events. Each event must be in the table once. The ids in the table begin
// with prefix.
func compareEffects(t *testing.T, pool *pgxpool.Pool, prefix string, want map[string]string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), "SELECT event, url FROM effect")
	if err != nil {
		rows, err = pool.Query(t.Context(), "SELECT event, url FROM effect") // the pool can have a connection from before the server was killed
	}
	if err != nil {
		t.Fatal(err)
	}
	var event, url string
	_, err = pgx.ForEachRow(rows, []any{&event, &url}, func() error {
		id := strings.TrimPrefix(event, prefix)
		if want[id] != url {
			t.Errorf("the table effect has event %s of %s twice, or the event has no record", event, url)
		}
		delete(want, id)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for event, url := range want {
		t.Errorf("event %s of %s has a record, but is not in the table effect", event, url)
	}
}

// eventsOf returns a map from event ids to URLs, with an entry for each record in a file.
func eventsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	urls := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			record.Record
			Fingerprint string `json:"fingerprint"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		urls[fmt.Sprintf("%s-%d", line.Fingerprint, line.Round)] = line.URL
	}
	return urls
}

// TestOnPageProgram is not a test. In a process that TestOnPageKilled starts, it is the
// program that is killed.
func TestOnPageProgram(t *testing.T) {
	if os.Getenv(onPageSite) == "" {
		t.Skip("not a test: TestOnPageKilled runs it as a program")
	}
	where, call := "", 0
	if death := os.Getenv(onPageDeath); death != "" {
		where = death[:len("inside")]
		_, _ = fmt.Sscanf(death[len("inside:"):], "%d", &call)
	}
	pool, err := pgxpool.New(t.Context(), os.Getenv(onPageDSN))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	box, err := inbox.Open(t.Context(), inbox.Config{DB: pool, Group: "pages"})
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int32
	config := library.Config{
		Dir: os.Getenv(onPageDir), Seeds: []string{os.Getenv(onPageSite)},
		OnPage: func(ctx context.Context, page *library.Page) error {
			dies := int(calls.Add(1)) == call
			_, err := box.Once(ctx, page.EventID(), func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO effect (event, url) VALUES ($1, $2)", page.EventID(), page.URL.String())
				if dies && where == "inside" {
					dieHere()
				}
				return err
			})
			if dies {
				dieHere()
			}
			return err
		},
	}
	config.Settings = library.DefaultSettings()
	config.Settings.Delay, config.Settings.AllowPrivate, config.Settings.AllowSeries = 0, true, []string{"."} // the pages are equal
	if err := library.Run(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

func dieHere() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
