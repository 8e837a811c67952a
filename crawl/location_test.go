package crawl

import "testing"

// TestWithoutSecrets: a URL is shown without credentials, whatever they contain.
func TestWithoutSecrets(t *testing.T) {
	for url, want := range map[string]string{
		"redis://h":                             "redis://h",
		"redis://h:1,i:2/3":                     "redis://h:1,i:2/3",
		"rediss://u:hush@h:1,i?ca=x":            "rediss://h:1,i",
		"redis://:hu@sh@h":                      "redis://h",
		"redis://u:hush/@h/1":                   "redis://h/1",
		"redis://u:hush?@h":                     "redis://h",
		"unix://u:hush@/run/redis.sock?db=hush": "unix:///run/redis.sock",
	} {
		if got := withoutSecrets(url); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}

// TestPostgresPassword: the password is added to each form of Postgres.URL.
func TestPostgresPassword(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://u:other@h:1/d?sslmode=disable": "postgres://u:it%27s%20%2F%5C%40@h:1/d?sslmode=disable",
		"host=h user=u": `host=h user=u password='it\'s /\\@'`,
	} {
		d, err := (&Postgres{URL: dsn, Password: `it's /\@`}).database()
		if err != nil || d.DSN != want {
			t.Errorf("%s becomes %s (%v), want %s", dsn, d.DSN, err, want)
		}
	}
}
