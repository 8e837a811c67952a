package crawl

import (
	"strings"
	"testing"
)

// TestRecrawlRefused: a crawl whose rows would have no place is refused by the name of the setting, and told what would be right.
func TestRecrawlRefused(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"use a crawl in a directory": {Redis: &Redis{URL: "redis://127.0.0.1:1", Name: "a"}},
		"--sink jsonl":               {Dir: t.TempDir()},
	} {
		c.Settings = DefaultSettings()
		if c.Redis == nil {
			c.Settings.Sink = sinkPostgres
		}
		if err := c.Validate(); err != nil && strings.Contains(err.Error(), want) {
			t.Errorf("without the setting: %v", err)
		}
		c.Settings.Recrawl = "80%"
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "recrawl") {
			t.Errorf("%v, want an error that says %q", err, want)
		}
	}
}
