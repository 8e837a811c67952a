package crawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
)

// serveControl answers other processes on the directory's socket until stop is
// called. The store's lock ensures that only one process does so.
func (ses *session) serveControl(ctx context.Context) (stop func(), err error) {
	listener, err := listenPrivately(ctx, ses.dir)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", ses.file(socketFile), err)
	}
	server := &http.Server{Handler: ses.routes(), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return func() {
		_ = server.Close()
		<-done
		_ = os.Remove(ses.file(socketFile))
	}, nil
}

// listenPrivately listens on the socket in dir, and replaces a socket that a killed
// process left. It creates the new socket in a folder that only the folder's owner can
// enter, sets the mode of the socket, and then moves the socket into dir. So no other user
// can connect at any moment, whatever the umask and the mode of dir are.
func listenPrivately(ctx context.Context, dir string) (net.Listener, error) {
	folder := filepath.Join(dir, socketFile+".new")
	if err := os.RemoveAll(folder); err != nil { // left by a process that was killed
		return nil, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	name, release, err := socketAddress(folder)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", name)
	release()
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // the socket is renamed below
	made := filepath.Join(folder, socketFile)
	if err = os.Chmod(made, 0o600); err == nil {
		err = os.Rename(made, filepath.Join(dir, socketFile))
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// callControl sends a question to the process that runs the crawl in dir, and
// decodes the reply into answer. An error of that process is returned as that process had it: see
// problem.
func callControl(ctx context.Context, dir, verb string, question, answer any) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialControl(ctx, dir)
		},
	}}
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://crawl/"+verb, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		failed, is := errors.AsType[*net.OpError](err)
		return &brokenCallError{dir, !is || failed.Op != "dial", errors.Unwrap(err)} // without the URL, which is made up
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var p problem
		if err := json.NewDecoder(response.Body).Decode(&p); err != nil {
			return &brokenCallError{dir, true, err}
		}
		return p.error()
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return &brokenCallError{dir, true, err}
	}
	return nil
}

// brokenCallError reports that a call through the control socket got no complete answer. The
// process that listened might have died meanwhile.
type brokenCallError struct {
	dir  string
	sent bool // the question may have been answered
	err  error
}

// Error implements error.
func (e *brokenCallError) Error() string {
	return fmt.Sprintf("ask the crawl that runs in %s: %v", e.dir, e.err)
}

// Unwrap returns the cause.
func (e *brokenCallError) Unwrap() error { return e.err }

// socketFile is the name of the socket on which a running crawl answers other
// processes.
const socketFile = "control.sock"

// maxSocketPath is the longest path, in bytes, that every system accepts for a socket.
const maxSocketPath = 100

// socketAddress returns a path to the socket in dir that is short enough for every
// system. If dir is long, the path leads through a symbolic link, which release
// removes.
func socketAddress(dir string) (name string, release func(), err error) {
	if name = filepath.Join(dir, socketFile); len(name) <= maxSocketPath {
		return name, func() {}, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	short, err := os.MkdirTemp("", "crawler")
	if err != nil {
		return "", nil, err
	}
	release = func() { _ = os.RemoveAll(short) }
	if err := os.Symlink(dir, filepath.Join(short, "dir")); err != nil {
		release()
		return "", nil, err
	}
	return filepath.Join(short, "dir", socketFile), release, nil
}

// dialControl connects to the crawl that runs in dir.
func dialControl(ctx context.Context, dir string) (net.Conn, error) {
	name, release, err := socketAddress(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	var d net.Dialer
	return d.DialContext(ctx, "unix", name)
}

// listens reports whether a process runs the crawl from dir.
func listens(ctx context.Context, dir string) bool {
	if dir == "" {
		return false
	}
	conn, err := dialControl(ctx, dir)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// awaitEnd waits until no process has the crawl in dir open.
func awaitEnd(ctx context.Context, dir string) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		running := listens(ctx, dir)
		if !running { // a process closes its socket first, and then the store
			var err error
			if running, err = engine.Locked(dir); err != nil || !running {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
