package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// A crawl continues with the version of the canonical form that it was created
// with, and not at all when its host names follow other Unicode tables.
func TestFormOfCrawl(t *testing.T) {
	address := site(t)
	dir := crawled(t, address, "--max-depth", "0", "http://a.test/ok")
	card := filepath.Join(dir, "crawl.json")
	store := func(version string) {
		t.Helper()
		text, err := os.ReadFile(card)
		if err != nil {
			t.Fatal(err)
		}
		form := regexp.MustCompile(`"v\d+( unicode=\S+)? sort=`)
		if !form.Match(text) {
			t.Fatalf("no form in %s", text)
		}
		if err := os.WriteFile(card, form.ReplaceAll(text, []byte(`"`+version+` sort=`)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	resume := func(seed string) (code int, errs string) {
		code, _, errs = run(t, "", "crawl", "--dir", dir, "--delay", "0", "--connect-to", "*.test="+address, seed)
		return code, errs
	}
	const seed = "http://FA\u1e9e.test/ok"
	for version, want := range map[string]string{
		"v1":                         "http://fass.test/ok",
		"v2 unicode=" + canon.Tables: "http://xn--fa-hia.test/ok",
	} {
		store(version)
		if code, errs := resume(seed); code != exitOK {
			t.Fatalf("%s: exit code %d: %s", version, code, errs)
		}
		for _, args := range [][]string{{"explain", "--dir", dir, seed}, {"output", "--dir", dir}} {
			if code, out, errs := run(t, "", args...); code != exitOK || !strings.Contains(out, want) {
				t.Errorf("%s: %s: exit code %d, no %s in\n%s%s", version, args[0], code, want, out, errs)
			}
		}
		if text, err := os.ReadFile(card); err != nil || !strings.Contains(string(text), `"`+version+` sort=`) {
			t.Errorf("%s: the crawl is now %s (%v)", version, text, err)
		}
	}
	store("v2 unicode=9.0.0")
	const refusal = "c.crawl: canon: this program cannot continue the stored form: its host names follow Unicode 9.0.0, but this program, built by go"
	if code, errs := resume(seed); code != exitUsage || !strings.Contains(errs, refusal) || !strings.Contains(errs, "or begin another crawl") {
		t.Errorf("other tables: exit code %d, %s", code, errs)
	}
	if code, _, errs := run(t, "", "status", "--dir", dir); code != exitFailed || !strings.Contains(errs, refusal) {
		t.Errorf("status with other tables: exit code %d, %s", code, errs)
	}
}
