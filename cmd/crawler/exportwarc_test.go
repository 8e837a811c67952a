package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExportWithoutBlocked: a copy of the WARC files has neither the answers of blocked URLs nor the requests for them, also
// if the policy has only their fingerprints, and all others byte for byte.
func TestExportWithoutBlocked(t *testing.T) {
	t.Parallel()
	site := listen(t, func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/moved" {
				http.Redirect(w, r, "/target", http.StatusFound)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `%s <a href="/kept">a</a> <a href="/private">b</a> <a href="/moved">c</a>`, r.URL.Path)
		}))
	})
	dir := filepath.Join(t.TempDir(), "c.crawl")
	run := func(args ...string) (string, int) {
		cmd := exec.Command("crawler", args...)
		out, _ := cmd.CombinedOutput() // the exit code says it
		return string(out), cmd.ProcessState.ExitCode()
	}
	must := func(args ...string) {
		t.Helper()
		if out, code := run(args...); code != 0 {
			t.Fatalf("%q: exit code %d: %s", args, code, out)
		}
	}
	must("crawl", "http://"+site+"/", "--dir", dir, "--urls", "1000", "--delay", "0", "--allow-private", "--quiet", "--save", "all")
	// members returns the records of the files of a folder, by kind and path.
	members := func(folder string) map[string][]byte {
		t.Helper()
		all := make(map[string][]byte)
		files, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for rest := bytes.NewReader(text); rest.Len() > 0; {
				z, err := gzip.NewReader(rest)
				if err != nil {
					t.Fatal(err)
				}
				z.Multistream(false)
				member, err := io.ReadAll(z)
				if err != nil {
					t.Fatal(err)
				}
				head := textproto.NewReader(bufio.NewReader(bytes.NewReader(member)))
				_, _ = head.ReadLine() // the version
				fields, err := head.ReadMIMEHeader()
				if err != nil {
					t.Fatal(err)
				}
				all[fields.Get("Warc-Type")+" "+strings.TrimPrefix(fields.Get("Warc-Target-Uri"), "http://"+site)] = member
			}
		}
		return all
	}
	all := members(filepath.Join(dir, "warc"))
	if len(all) != 13 { // warcinfo, and two of robots.txt and of each page
		t.Fatalf("the crawl has the records %q, want 13", slices.Sorted(maps.Keys(all)))
	}
	must("block", "--dir", dir, "http://"+site+"/private")
	must("block", "--dir", dir, "--erase", "http://"+site+"/moved")
	to := filepath.Join(t.TempDir(), "public")
	must("export", "--without-blocked", "--warc", to, dir)
	got := members(to)
	for name, member := range all {
		blocked := strings.HasSuffix(name, " /private") || strings.HasSuffix(name, " /moved")
		if copied, is := got[name]; is == blocked || is && !bytes.Equal(copied, member) {
			t.Errorf("the copy has the record %q: %v", name, is)
		}
	}
	for want, args := range map[string][]string{
		"exists":                     {"--without-blocked", "--warc", to, dir},
		"--warc needs":               {"--warc", to, dir},
		"--without-blocked needs --": {"--without-blocked", dir},
		"directory of one crawl":     {"--without-blocked", "--warc", to},
	} {
		if out, code := run(append([]string{"export"}, args...)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("export %q: exit code %d, %s; want an error with %q", args, code, out, want)
		}
	}
}
