package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigFileIsOneDocument: what follows the end of the first YAML document is an error with
// its line, never ignored. Marks around a single document are allowed.
func TestConfigFileIsOneDocument(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "c.yaml")
	for _, c := range []struct{ text, fault string }{
		{"delay: 5s\n", ""},
		{"---\ndelay: 5s\n", ""},
		{"# a comment\n--- # another\ndelay: 5s\n...\n", ""},
		{"%YAML 1.1\n---\ndelay: 5s\n", ""},
		{"", ""},
		{"# nothing\n", ""},
		{"---\n", "want flag names"},
		{"delay: 5s\n---\ndelay: 60s\nno-such-key: 1\n", "c.yaml:2: a second YAML document begins"},
		{"delay: 5s\n---\n", "c.yaml:2: a second YAML document begins"},
		{"delay: 5s\n...\n---\nrate: 1\n", "c.yaml:3: a second YAML document begins"},
		{"---\n---\ndelay: 5s\n", "a second YAML document begins"},
		{"delay: 5s\n---\nrate: [1\n", "c.yaml: yaml: line"},
	} {
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		wantCode := exitOK
		if c.fault != "" {
			wantCode = exitUsage
		}
		code, _, errs := run(t, "", "config", "--config", name, "--dir", filepath.Join(t.TempDir(), "d"), "http://x.test/")
		if code != wantCode || c.fault != "" && !strings.Contains(errs, c.fault) {
			t.Errorf("%q: exit code %d, %q; want %d and %q", c.text, code, errs, wantCode, c.fault)
		}
	}
}
