package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFormOfCrawl: a crawl does not continue if the canonical form of its URLs has another
// version, or if its host names were made with other Unicode tables.
func TestFormOfCrawl(t *testing.T) {
	t.Parallel()
	address := site(t)
	dir := crawled(t, address, "--max-depth", "0", "http://a.test/ok")
	card := filepath.Join(dir, "crawl.json")
	own := regexp.MustCompile(`"v2 unicode=\S+ sort=`)
	for form, fault := range map[string]string{
		"v1":               "it has version 1, this program has version 2",
		"v2 unicode=9.0.0": "its host names follow Unicode 9.0.0, those of this program Unicode 15.0.0",
	} {
		text, err := os.ReadFile(card)
		if err != nil {
			t.Fatal(err)
		}
		if !own.Match(text) {
			t.Fatalf("no canonical form of version 2 in %s", text)
		}
		if err := os.WriteFile(card, own.ReplaceAll(text, []byte(`"`+form+` sort=`)), 0o644); err != nil {
			t.Fatal(err)
		}
		refusal := "c.crawl: this program cannot continue the stored form: " + fault
		code, _, errs := run(t, "", "crawl", "--dir", dir, "--delay", "0", "--connect-to", "*.test="+address, "http://a.test/ok")
		if code != exitUsage || !strings.Contains(errs, refusal) || !strings.Contains(errs, "or begin another crawl") {
			t.Errorf("form %s: crawl: exit code %d, want a usage error: %s", form, code, errs)
		}
		if code, _, errs := run(t, "", "status", "--dir", dir); code != exitFailed || !strings.Contains(errs, refusal) {
			t.Errorf("form %s: status: exit code %d, want an error: %s", form, code, errs)
		}
		if err := os.WriteFile(card, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
