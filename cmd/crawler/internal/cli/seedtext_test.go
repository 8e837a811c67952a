package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSeedsOfAllKinds: a line that is not a seed is reported with its line number, and is
// counted. Credentials are reported, but the password is neither in the output nor in any
// file that the commands write.
func TestSeedsOfAllKinds(t *testing.T) {
	t.Chdir(t.TempDir())
	list := "url,title,date\nhttp://u:geheim@a.test/\n/etc/passwd\nb.test\nfoo:\nhttp://u:ge/heim@c.test/\n"
	if err := os.WriteFile("list.txt", []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	crawl := []string{"crawl", "--dir", "x.crawl", "--refused", "refused.jsonl", "--robots", "ignore", "--retries", "0", "--delay", "0",
		"--connect-to", "*=127.0.0.1:1", "--max-time", "1ns"}
	_, out, errs := run(t, "", append(crawl, "--seeds", "list.txt", "http://u:geheim@d.test/")...)
	for _, want := range []string{
		"warning: argument: the user name and password in http://…@d.test/ are not used; to send them crawl with -H 'Authorization: Basic",
		"to go on: ",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in\n%s", want, errs)
		}
	}
	_, more, errs2 := run(t, "", "seed", "--dir", "x.crawl", "--seeds", "list.txt")
	for _, want := range []string{
		`seed refused: list.txt:1: "url,title,date" is no URL: "url,title,date" cannot be a host; want a URL such as https://example.org/, or a host`,
		"warning: list.txt:2: the user name and password in http://…@a.test/ are not used",
		`seed refused: list.txt:3: "/etc/passwd" is no URL: it begins with a slash`,
		`seed refused: list.txt:5: "foo:" is no URL: the text after the colon is no port`,
		`seed refused: list.txt:6: "http://…@c.test/" is no URL`,
	} {
		if !strings.Contains(errs2, want) {
			t.Errorf("no %q in\n%s", want, errs2)
		}
	}
	if !strings.HasPrefix(more, "6 seeds: ") || !strings.HasSuffix(more, " 4 refused\n") {
		t.Errorf("seed says %q, want 4 of 6 refused", more)
	}
	if strings.Contains(out+errs+more+errs2, "heim") {
		t.Errorf("the output contains a password:\n%s%s%s%s", out, errs, more, errs2)
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || name == "list.txt" {
			return err
		}
		text, err := os.ReadFile(name)
		if strings.Contains(string(text), "heim") {
			t.Errorf("file %s contains a password", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
