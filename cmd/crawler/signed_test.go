package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/npm"
)

// askedSigned is a request, as the server of TestSignedCrawl prints it.
type askedSigned struct{ Host, URL, Problem, Input, Signature string }

// TestSignedCrawl: a site that answers 401 without a valid signature gives every page. An independent implementation
// verifies the signatures and the directory of keys. Requests for robots.txt and each redirect to another authority are
// signed, the key changes during the crawl, and one page asks for a nonce. Nothing of what the crawl wrote has a
// signature, a cookie or a credential.
func TestSignedCrawl(t *testing.T) {
	t.Parallel()
	program := npm.Install(t, "testdata/webbotauth")
	for _, mode := range []string{"each", "reuse"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			run := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "crawler", args...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("crawler %q: %v\n%s", args, err, out)
				}
				return string(out)
			}
			run("key", "new", "bot.key")
			run("key", "rotate", "bot.key", "--publish", "4s", "--keep", "1s")
			run("key", "directory", "bot.key", "--signature-agent", "https://bot.test", "--out", ".")
			server := exec.Command("node", "server.js", dir, mode)
			server.Dir, server.Stderr = program, os.Stderr
			stdout, err := server.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(stdout)
			address, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("the server does not start: %v", err)
			}
			requests := make(chan []askedSigned, 1)
			go func() {
				var all []askedSigned
				for decoder := json.NewDecoder(lines); ; {
					var one askedSigned
					if decoder.Decode(&one) != nil {
						requests <- all
						return
					}
					all = append(all, one)
				}
			}()
			flags := []string{"--dir", "c", "--sign", "bot.key", "--signature-agent", "https://bot.test", "--scope", "any", "--delay", "60ms", "--save", "all",
				"--host-concurrency", "2", "--backoff", "100ms", "--connect-to", "*.test=" + strings.TrimSpace(address), "--log-level", "debug",
				"-H", "Cookie: user=secret-of-ours", "-H", "Authorization: Basic c2VjcmV0OnNlY3JldA=="}
			if mode == "reuse" {
				flags = append(flags, "--sign-reuse", "2s")
			}
			said := run(append(append([]string{"crawl"}, flags...), "http://a.test/0")...)
			records := run("output", "--dir", "c")
			pages := map[string]bool{}
			for line := range strings.Lines(records) {
				var r struct{ URL, Outcome, Error string }
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				if r.Outcome == "ok" {
					pages[r.URL] = true
				} else if r.Outcome != "redirect" {
					t.Errorf("%s: %s, %s", r.URL, r.Outcome, r.Error)
				}
			}
			_ = server.Process.Kill()
			all := <-requests
			_ = server.Wait()
			keys, hosts := map[string]bool{}, map[string]bool{}
			secrets := []string{"secret-of-ours", "c2VjcmV0OnNlY3JldA", "from-the-site"}
			for _, r := range all {
				if r.Problem != "" {
					t.Errorf("%s %s: %s", r.Host, r.URL, r.Problem)
				}
				_, id, _ := strings.Cut(r.Input, "keyid=")
				id, _, _ = strings.Cut(id, ";")
				keys[id], hosts[r.Host] = true, true
				secrets = append(secrets, strings.Trim(strings.TrimPrefix(r.Signature, "sig1="), ":"))
			}
			t.Logf("%d requests, %d pages, %d keys\n%s", len(all), len(pages), len(keys), said)
			if len(pages) < 100 || len(hosts) != 2 {
				t.Errorf("%d pages of %d hosts, want more than 100 of 2", len(pages), len(hosts))
			}
			if len(keys) != 2 {
				t.Errorf("%d keys have signed, want 2", len(keys))
			}
			findNone(t, filepath.Join(dir, "c"), said, secrets)
		})
	}
}

// findNone checks that no file in dir, unpacked too, and not the text have one of the secrets.
func findNone(t *testing.T, dir, text string, secrets []string) {
	t.Helper()
	check := func(name string, content []byte) {
		for _, secret := range secrets {
			if secret != "" && bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s has %q", name, secret)
				return
			}
		}
	}
	check("the output", []byte(text))
	redacted := false
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		check(path, content)
		if !strings.HasSuffix(path, ".gz") {
			return nil
		}
		z, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return err
		}
		plain, err := io.ReadAll(z)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		check(path, plain)
		redacted = redacted || bytes.Contains(plain, []byte("\r\nX-Redacted-Headers: Authorization, Cookie, Signature, Signature-Input\r\n")) &&
			bytes.Contains(plain, []byte("\r\nSignature: redacted\r\n")) && bytes.Contains(plain, []byte("\r\nCookie: redacted\r\n"))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if !redacted {
		t.Error("no WARC record names the redacted headers")
	}
}
