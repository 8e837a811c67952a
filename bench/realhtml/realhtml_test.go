package realhtml

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/bench/site"
)

func doc(t *testing.T, name string) Tree {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte(name), 0o666); err != nil {
		t.Fatal(err)
	}
	return Tree{name, dir, name + "-doc"}
}

func TestInstalledNamesAllThatIsMissing(t *testing.T) {
	here := doc(t, "here")
	if trees, err := installed([]Tree{here}); err != nil || len(trees) != 1 {
		t.Errorf("installed with one existing tree = %v, %v, want the tree", trees, err)
	}
	gone := func(deb string) Tree { return Tree{deb, filepath.Join(t.TempDir(), "none"), deb} }
	_, err := installed([]Tree{gone("a-doc"), here, gone("b-doc")})
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "a-doc b-doc") {
		t.Errorf("installed with two missing trees: error %v, want ErrMissing with a-doc b-doc", err)
	}
}

func TestLayOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	if err := LayOut(dir, []Tree{doc(t, "x"), doc(t, "y")}, 2); err != nil {
		t.Fatal(err)
	}
	server := site.Handler(dir)
	for path, want := range map[string]string{
		"/": `<a href="y-001/index.html">`, "/x-000/index.html": "x", "/x-001/index.html": "x", "/y-001/": "y",
	} {
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, httptest.NewRequest("GET", path, nil))
		if recorder.Code != 200 || !strings.Contains(recorder.Body.String(), want) {
			t.Errorf("GET %s: %d %q, want 200 with %q", path, recorder.Code, recorder.Body, want)
		}
	}
	if err := LayOut(dir, nil, 1); err == nil {
		t.Error("LayOut into a folder that is not empty: no error")
	}
}
