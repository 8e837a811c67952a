package cli

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTrustedCertificates: a certificate that the system does not trust is an error. It
// is accepted with --ca, and not verified with --insecure-host.
func TestTrustedCertificates(t *testing.T) {
	t.Chdir(t.TempDir())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile("ca.pem", append([]byte("# of a test\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	config := "insecure-host: ['*.test']\n"
	if err := os.WriteFile("c.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	const warning = "certificates of *.test are not verified (--insecure-host)"
	for _, test := range []struct {
		flags  []string
		url    string // example.com is the name in the certificate
		ok     bool
		stderr string
	}{
		{nil, "https://example.com/", false, ""},
		{[]string{"--ca", "ca.pem"}, "https://example.com/", true, ""},
		{[]string{"--ca", "ca.pem"}, "https://a.test/", false, ""},
		{[]string{"--ca", "ca.pem", "--save", "all"}, "https://example.com/", true, ""},
		{[]string{"--insecure-host", "*.test"}, "https://a.test/", true, warning},
		{[]string{"--insecure-host", "*.test", "--save", "all"}, "https://a.test/", true, warning},
		{[]string{"--insecure-host", "*.test"}, "https://example.com/", false, warning},
		{[]string{"--config", "c.yaml"}, "https://a.test/", true, warning},
		{[]string{"--allow-private", "--insecure-host", "127.*"}, server.URL + "/", true, "certificates of 127.* are not verified"},
	} {
		args := slices.Concat([]string{"crawl", "--dir", filepath.Join(t.TempDir(), "x"), "--urls", "10k", "--robots", "ignore", "--retries", "0", "--delay", "0"}, test.flags)
		if !strings.Contains(test.url, "127") {
			args = append(args, "--connect-to", "*="+server.Listener.Addr().String())
		}
		code, _, errs := run(t, "", append(args, test.url)...)
		if ok := code == exitOK && strings.Contains(errs, "outcomes    ok 1"); ok != test.ok || !strings.Contains(errs, test.stderr) {
			t.Errorf("%q %s: exit code %d, want success: %t, and %q in stderr:\n%s", test.flags, test.url, code, test.ok, test.stderr, errs)
		}
	}
}
