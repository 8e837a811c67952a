package crawl_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
)

// TestRunSaysWhatFailed: Run returns an error by name if no seed is accepted or reached, if a handler fails, and if its
// context ends. A run that does what it was asked to do returns nil, also if a limit ends it.
func TestRunSaysWhatFailed(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + listener.Addr().String() + "/"
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	boom, enough := errors.New("boom"), errors.New("enough")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	fails := func(_ context.Context, p *crawl.Page) error {
		if p.Item.Depth == 0 {
			return nil
		}
		return boom
	}
	for name, test := range map[string]struct {
		ctx  context.Context
		edit func(*crawl.Config)
		is   []error
		says string
	}{
		"all is well":     {edit: func(*crawl.Config) {}},
		"limit of pages":  {edit: func(c *crawl.Config) { c.Settings.MaxPages = 1 }},
		"refused":         {edit: func(c *crawl.Config) { c.Seeds = []string{"gopher://a.test/", "ftp://b.test/"} }, is: []error{crawl.ErrNoSeed}, says: "gopher://a.test/"},
		"none":            {edit: func(c *crawl.Config) { c.Seeds = nil }, is: []error{crawl.ErrNoSeed}},
		"closed port":     {edit: func(c *crawl.Config) { c.Seeds = []string{closed} }, is: []error{crawl.ErrUnreached}, says: "connection refused"},
		"failing handler": {edit: func(c *crawl.Config) { c.OnPage = fails }, is: []error{boom}, says: "failed for 2 URLs: "},
		"failing answers": {edit: func(c *crawl.Config) {
			c.Seeds = append(c.Seeds, c.Seeds[0]+"/missing")
			c.OnAnswer = func(context.Context, *crawl.Answer) error { return boom }
		}, is: []error{boom}, says: "failed for 1 URL: "},
		"panic":     {edit: func(c *crawl.Config) { c.OnPage = func(context.Context, *crawl.Page) error { panic("pow") } }, says: "pow"},
		"cancelled": {ctx: ended, edit: func(*crawl.Config) {}, is: []error{context.Canceled, enough}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config(t, site(t))
			c.Settings.Retries, c.Settings.Backoff = 0, time.Millisecond
			test.edit(&c)
			ctx := test.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			err := crawl.Run(ctx, c)
			if wants := test.is != nil || test.says != ""; wants != (err != nil) {
				t.Fatalf("Run = %v, want an error: %t", err, wants)
			}
			for _, is := range test.is {
				if !errors.Is(err, is) {
					t.Errorf("Run = %v, want %v", err, is)
				}
			}
			if err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("Run = %v, want %q", err, test.says)
			}
			if failed, is := errors.AsType[*crawl.HandlerError](err); is != (c.OnPage != nil || c.OnAnswer != nil) || is && uint64(len(failed.Pages)) != failed.Count {
				t.Errorf("Run = %v, want a HandlerError with its pages if the handler fails", err)
			}
		})
	}
}

// TestWarningsGoToStderr: without a Logger, warnings go to stderr, and other messages nowhere.
func TestWarningsGoToStderr(t *testing.T) {
	old := os.Stderr
	defer func() { os.Stderr = old }()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stderr = w
	c := config(t, "gopher://a.test/")
	c.Logger = nil
	err = crawl.Run(t.Context(), c)
	os.Stderr = old
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(r)
	if text := string(said); !errors.Is(err, crawl.ErrNoSeed) || !strings.Contains(text, "seed refused") || strings.Contains(text, "level=INFO") {
		t.Errorf("Run = %v, and stderr has %q", err, text)
	}
}

// TestConnectToIsText: Settings.ConnectTo takes what --connect-to takes, and a text of another form is refused.
func TestConnectToIsText(t *testing.T) {
	t.Parallel()
	c := config(t, "http://a.test/")
	c.Settings.AllowPrivate = false
	c.Settings.ConnectTo = []string{"*.test=" + strings.TrimPrefix(site(t), "http://")}
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Errorf("Run with %q = %v, want no error", c.Settings.ConnectTo, err)
	}
	c.Settings.ConnectTo = []string{"a.test"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "connect-to") {
		t.Errorf("Validate with %q = %v, want an error that names connect-to", c.Settings.ConnectTo, err)
	}
}
