package crawl_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestCDCCapturesEachRecordOnce: the write-ahead log has one event for each record of a
// crawl, and resuming the crawl adds none. A crawl with change data capture (CDC) is refused if
// its records are in files.
func TestCDCCapturesEachRecordOnce(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"wal_level": "logical"}})
	c := config(t, site(t))
	c.Settings.CDC = true
	if err := crawl.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "CDC") {
		t.Errorf("CDC of a crawl with records in files: error %v, want one about CDC", err)
	}
	c.Settings.Sink, c.Postgres = "postgres", &crawl.Postgres{URL: server.DSN()}
	if _, _, err := crawl.Migrate(t.Context(), c.Postgres); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, statement := range []string{
		"CREATE PUBLICATION p FOR TABLE crawler.outbox WITH (publish = 'insert')", "SELECT pg_create_logical_replication_slot('s', 'pgoutput')",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := crawl.Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	const inserts = `SELECT count(*) FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')
		WHERE get_byte(data, 0) = ascii('I')`
	var n int
	if err := conn.QueryRow(t.Context(), inserts).Scan(&n); err != nil || n != 3 {
		t.Errorf("%d events were captured, %v; want 3", n, err)
	}
}
