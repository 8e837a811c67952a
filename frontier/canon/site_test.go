package canon

import (
	"net/url"
	"strings"
	"testing"
)

func TestSite(t *testing.T) {
	for host, want := range map[string]string{
		"example.org": "example.org", "a.b.example.org": "example.org", "a.example.co.uk": "example.co.uk", "co.uk": "co.uk",
		"wordpress.com": "wordpress.com", "a.wordpress.com": "a.wordpress.com", "www.a.wordpress.com": "a.wordpress.com",
		"de.wikipedia.org": "de.wikipedia.org", "de.m.wikipedia.org": "m.wikipedia.org", "xwordpress.com": "xwordpress.com",
		"user.github.io": "user.github.io", "localhost": "", "127.0.0.1": "", "[::1]": "",
	} {
		if got := Site(host); got != want {
			t.Errorf("Site(%q) = %q, want %q", host, got, want)
		}
	}
}

// TestPlatforms: each row has a source, and its domain needs the row.
func TestPlatforms(t *testing.T) {
	rows := 0
	for line := range strings.Lines(platformsText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		rows++
		fields := strings.Fields(line)
		if len(fields) != 2 {
			t.Fatalf("%q has %d fields, want 2", line, len(fields))
		}
		if source, err := url.Parse(fields[1]); err != nil || source.Host == "" {
			t.Errorf("%q is no source", fields[1])
		}
		if Domain("a."+fields[0]) != fields[0] {
			t.Errorf("%s is a public suffix, and needs no row", fields[0])
		}
	}
	if rows != len(platforms) || !platforms["tumblr.com"] {
		t.Errorf("%d platforms are known, want %d", len(platforms), rows)
	}
}
