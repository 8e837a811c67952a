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
	for code, err := range problemCodes {
		faults["code "+code] = fmt.Errorf("wrapped: %w", err)
	}
	for name, fault := range faults {
		verbSeed.checkErrors(t, name, fault)
		verbRetry.checkErrors(t, name, fault)
		verbRecheck.checkErrors(t, name, fault)
		verbPause.checkErrors(t, name, fault)
		verbStatus.checkErrors(t, name, fault)
		verbSample.checkErrors(t, name, fault)
		verbReport.checkErrors(t, name, fault)
		verbExplain.checkErrors(t, name, fault)
		verbAudit.checkErrors(t, name, fault)
		verbPosition.checkErrors(t, name, fault)
		verbFilter.checkErrors(t, name, fault)
		verbSeeds.checkErrors(t, name, fault)
		verbReconcile.checkErrors(t, name, fault)
		verbCanonical.checkErrors(t, name, fault)
		verbStop.checkErrors(t, name, fault)
	}
}

// checkErrors calls the verb with a function that fails, in this process and through a socket.
func (v verb[Q, A]) checkErrors(t *testing.T, name string, fault error) {
	t.Helper()
	v.perform = func(*session, context.Context, Q) (answer A, err error) { return answer, fault }
	dir := t.TempDir()
	mux := http.NewServeMux()
	v.serve(mux, nil)
	listener, err := listenPrivately(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()

	var question Q
	_, local := v.ask(t.Context(), &Handle{own: &session{}}, question)
	h := newHandle(Location{Dir: dir}, nil)
	_, remote := v.askOnce(t.Context(), h, question)
	if remote == nil || remote.Error() != local.Error() {
		t.Fatalf("%s of %s: %v, want %v", name, v.name, remote, local)
	}
	for code, target := range problemCodes {
		if got, want := errors.Is(remote, target), errors.Is(local, target); got != want {
			t.Errorf("%s of %s: matches %s: %t, want %t", name, v.name, code, got, want)
		}
	}
	if errors.Is(remote, syscall.ENOSPC) != errors.Is(local, syscall.ENOSPC) {
		t.Errorf("%s of %s: ENOSPC is lost", name, v.name)
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
	stop, err := c.ses.serveControl(t.Context())
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
