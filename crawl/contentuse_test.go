package crawl

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestContentUseKeepsNothing: no file of a crawl has the content or the links of a page whose owner refuses the use.
func TestContentUseKeepsNothing(t *testing.T) {
	t.Parallel()
	const secret = "nobody may keep this"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nContent-Usage: /line train-ai=n\n")
		case "/.well-known/tdmrep.json":
			fmt.Fprint(w, `[{"location": "/file", "tdm-reservation": 1}]`)
		case "/":
			fmt.Fprint(w, `<title>kept title</title><p>kept text</p><a href=/line>1</a><a href=/file>2</a><a href=/header>3</a><a href=/meta>4</a>`)
		case "/header":
			w.Header().Set("Content-Usage", "train-ai=n")
			fmt.Fprintf(w, `<title>%s</title><p>%[1]s</p><a href=/behind>%[1]s</a>`, secret)
		case "/meta":
			fmt.Fprintf(w, `<meta name=robots content=noai><title>%s</title><p>%[1]s</p><a href=/behind>%[1]s</a>`, secret)
		default:
			t.Errorf("%s was requested", r.URL.Path)
		}
	}))
	defer web.Close()
	c := Config{Dir: t.TempDir(), Settings: DefaultSettings(), Seeds: []string{web.URL}}
	s := &c.Settings
	s.AllowPrivate, s.Delay, s.LatencyFactor, s.DomainRate = true, 0, 0, 0
	s.Save, s.Text, s.Links, s.Fields = "all", true, true, []FieldGroup{{Fields: []string{"p=p"}}}
	s.Preferences, s.ContentUse = "full", []string{"train-ai"}
	opened, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	result, err := opened.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	if n := result.Report.Outcomes[frontier.RefusedUse]; n != 4 {
		t.Errorf("outcomes %v, want 4 refused_use", result.Report.Outcomes)
	}
	for _, r := range result.Report.Results {
		if r.Kind == report.Use && (r.Count != 4 || r.Where != "outcome = refused_use") {
			t.Errorf("the report has %+v", r)
		}
	}
	kept, archived := false, false
	err = filepath.WalkDir(c.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.HasSuffix(path, ".gz") {
			unpacked, err := gzip.NewReader(bytes.NewReader(content))
			if err != nil {
				return err
			}
			if content, err = io.ReadAll(unpacked); err != nil {
				return err
			}
			archived = archived || bytes.Contains(content, []byte("kept text"))
		}
		if bytes.Contains(content, []byte(secret)) || bytes.Contains(content, []byte("/behind")) {
			t.Errorf("%s has content of a page whose owner refuses the use", path)
		}
		kept = kept || bytes.Contains(content, []byte("kept text"))
		if strings.HasPrefix(d.Name(), "pages.jsonl") && !bytes.Contains(content, []byte(`"train_ai":"refused"`)) {
			t.Errorf("%s has no preferences: %s", path, content)
		}
		return err
	})
	if err != nil || !kept || !archived {
		t.Errorf("the text of an allowed page is kept: %v, and its answer: %v; error %v", kept, archived, err)
	}
}
