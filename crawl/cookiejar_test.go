package crawl

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCookies: a page that redirects to itself to set a cookie is fetched, the cookie is sent from then on, also by the
// next run, and pages of a site where the login is over are no pages.
func TestCookies(t *testing.T) {
	t.Parallel()
	over := false // the login
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, _ := r.Cookie("visitor")
		w.Header().Set("Content-Type", "text/html")
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case over:
			http.Redirect(w, r, "/login?to="+r.URL.Path, http.StatusFound)
		case cookie == nil:
			http.SetCookie(w, &http.Cookie{Name: "visitor", Value: "7", Path: "/", MaxAge: 3600})
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		case r.Header.Get("Authorization") != "Basic dTpw":
			w.WriteHeader(http.StatusForbidden)
		default:
			for i := range 8 {
				fmt.Fprintf(w, "<a href=/%s%d>x</a>", strings.Repeat("a", i), i)
			}
		}
	}))
	defer site.Close()
	temp := t.TempDir()
	logins := filepath.Join(temp, "logins")
	if err := os.WriteFile(logins, []byte("http://*.test basic u:p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{Dir: filepath.Join(temp, "a.crawl"), Settings: small(), Seeds: []string{"http://www.test/"}}
	c.Settings.ConnectTo = []string{"*.test=" + site.Listener.Addr().String()}
	c.Settings.Delay, c.Settings.CookieJar, c.Settings.CookieJarFile, c.Settings.Logins = time.Millisecond, true, filepath.Join(temp, "jar"), logins
	c.Settings.LoggedOut = "/login"
	if err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	outcomes := func() map[string]int {
		t.Helper()
		text, err := os.ReadFile(RecordsFile(c.Dir))
		if err != nil {
			t.Fatal(err)
		}
		counts := make(map[string]int)
		for line := range strings.Lines(string(text)) {
			var r struct{ Outcome string }
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			counts[r.Outcome]++
		}
		return counts
	}
	if got := outcomes(); got["ok"] != 9 || len(got) != 1 {
		t.Errorf("outcomes %v, want 9 ok", got)
	}
	jar, err := os.ReadFile(c.Settings.CookieJarFile)
	if err != nil || !strings.Contains(string(jar), "www.test\tFALSE\t/\tFALSE\t") || !strings.Contains(string(jar), "\tvisitor\t7\n") {
		t.Errorf("the file of cookies is %q, %v", jar, err)
	}

	over = true
	c.Seeds = []string{"http://www.test/new"}
	c.Settings.MaxTime = 2 * time.Second
	_ = Run(t.Context(), c) // it ends because the host is blocked, or the time is over
	if got := outcomes(); got["ok"] != 9 || len(got) != 1 {
		t.Errorf("after the login was over: outcomes %v, want those of before", got)
	}
}
