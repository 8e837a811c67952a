package crawl

import (
	"strings"
	"testing"
)

// TestPostgresPassword: Postgres.Password replaces the password in Postgres.URL, and another
// form of the URL is refused without showing it.
func TestPostgresPassword(t *testing.T) {
	t.Parallel()
	db := Postgres{URL: "postgres://u:other@h:1/d?sslmode=disable", Password: `it's /\@`}
	if d, err := db.database(); err != nil || d.DSN != "postgres://u:it%27s%20%2F%5C%40@h:1/d?sslmode=disable" {
		t.Errorf("database of %s = %+v (%v), want the password in its DSN", db.URL, d, err)
	}
	for _, text := range []string{"host=h user=u password=hush", "http://u:hush@h/", "postgres://u:12/hush@h/d", "u:hush@h"} {
		if err := (&Postgres{URL: text}).Validate(); err == nil || !strings.Contains(err.Error(), wantPostgres) || strings.Contains(err.Error(), "hush") {
			t.Errorf("Validate of %s = %v, want %q", text, err, wantPostgres)
		}
		if where := (&Postgres{URL: text}).Where(); where != "postgres" {
			t.Errorf("%s is shown as %s, want postgres", text, where)
		}
	}
}
