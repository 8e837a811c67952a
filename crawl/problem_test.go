package crawl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// TestErrorsThroughSocket: an error of a verb is the same in the process that runs the crawl and in
// another one.
func TestErrorsThroughSocket(t *testing.T) {
	t.Parallel()
	settings := &frontier.SettingsError{Differ: []frontier.SettingDiff{{Name: "depth", Stored: "3", Given: "4"}}}
	gone := &record.GoneError{File: "pages.jsonl", From: 10, To: -1}
	missing := &record.MissingError{Name: "pages.jsonl", Size: 1, Committed: 2}
	refused := &canon.Error{Ref: "http://a b/", Err: canon.ErrMalformed, Hint: "a space"}
	full := &fs.PathError{Op: "write", Path: "pages.jsonl", Err: syscall.ENOSPC}
	faults := map[string]error{
		"plain": errors.New("a fault"), "two lines": errors.New("one\ntwo: <&>"), "full disk": full, "missing file": os.ErrNotExist,
		"joined": errors.Join(frontier.ErrUnavailable, frontier.ErrFull), "settings": settings, "gone": gone, "missing": missing, "url": refused,
		"canceled": context.Canceled, "deadline": context.DeadlineExceeded,
	}
	for code, err := range control.Codes {
		faults["code "+code] = fmt.Errorf("wrapped: %w", err)
	}
	for name, fault := range faults {
		checkErrors(t, verbSeed, name, fault)
		checkErrors(t, verbRetry, name, fault)
		checkErrors(t, verbRecheck, name, fault)
		checkErrors(t, verbPause, name, fault)
		checkErrors(t, verbStatus, name, fault)
		checkErrors(t, verbSample, name, fault)
		checkErrors(t, verbReport, name, fault)
		checkErrors(t, verbExplain, name, fault)
		checkErrors(t, verbAudit, name, fault)
		checkErrors(t, verbPosition, name, fault)
		checkErrors(t, verbSeeds, name, fault)
		checkErrors(t, verbReconcile, name, fault)
		checkErrors(t, verbCanonical, name, fault)
		checkErrors(t, verbStop, name, fault)
	}
}

// checkErrors calls the verb with a function that fails, in this process and through a socket.
func checkErrors[Q, A any](t *testing.T, v verb[Q, A], name string, fault error) {
	t.Helper()
	v.Perform = func(*session, context.Context, Q) (answer A, err error) { return answer, fault }
	dir := t.TempDir()
	mux := http.NewServeMux()
	v.Route(mux, nil)
	stop, err := control.Serve(t.Context(), dir, mux)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()

	var question Q
	_, local := ask(t.Context(), &Handle{own: &session{}}, v, question)
	h := newHandle(Location{Dir: dir}, nil)
	_, remote := askOnce(t.Context(), h, v, question)
	if remote == nil || remote.Error() != local.Error() {
		t.Fatalf("%s of %s: %v, want %v", name, v.Name, remote, local)
	}
	for code, target := range control.Codes {
		if got, want := errors.Is(remote, target), errors.Is(local, target); got != want {
			t.Errorf("%s of %s: matches %s: %t, want %t", name, v.Name, code, got, want)
		}
	}
	if errors.Is(remote, syscall.ENOSPC) != errors.Is(local, syscall.ENOSPC) {
		t.Errorf("%s of %s: ENOSPC is lost", name, v.Name)
	}
	sameType[*frontier.SettingsError](t, local, remote)
	sameType[*record.GoneError](t, local, remote)
	sameType[*record.MissingError](t, local, remote)
	sameType[*canon.Error](t, local, remote)
}

// sameType checks that both errors have the same cause of type E, or none.
func sameType[E error](t *testing.T, local, remote error) {
	t.Helper()
	want, is := errors.AsType[E](local)
	if got, has := errors.AsType[E](remote); has != is || !reflect.DeepEqual(got, want) {
		t.Errorf("%T %v, want %v", got, got, want)
	}
}

// TestErrorsOfVerbs: the errors of a crawl that runs are the same in another process.
func TestErrorsOfVerbs(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "x.crawl"), Settings: small()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stop, err := control.Serve(t.Context(), c.ses.dir, c.ses.routes())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	other, err := Attach(t.Context(), Location{Dir: c.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Canonical(t.Context(), "ftp://a.test/")
	if fault, is := errors.AsType[*canon.Error](err); !is || fault.Ref != "ftp://a.test/" || !errors.Is(err, canon.ErrScheme) {
		t.Errorf("Canonical: %v, want a canon.Error with ErrScheme", err)
	}
}
