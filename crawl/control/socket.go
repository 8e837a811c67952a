// Package control lets other processes ask the process that runs a crawl: verbs, which are questions with
// answers, and problems, which are errors that keep their type on the way. Both are JSON over HTTP, on a
// socket in the crawl's directory that only its owner can use.
//
// It does not own what a verb does (package crawl).
package control

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
)

// Serve answers other processes on the socket in dir until stop is called. The store's lock ensures
// that only one process does so.
func Serve(ctx context.Context, dir string, handler http.Handler) (stop func(), err error) {
	name := filepath.Join(dir, SocketFile)
	listener, err := listenPrivately(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", name, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return func() {
		_ = server.Close()
		<-done
		_ = os.Remove(name)
	}, nil
}

// listenPrivately listens on the socket in dir, and replaces a socket that a killed
// process left. It creates the new socket in a folder that only the folder's owner can
// enter, sets the mode of the socket, and then moves the socket into dir. So no other user
// can connect at any moment, whatever the umask and the mode of dir are.
func listenPrivately(ctx context.Context, dir string) (net.Listener, error) {
	folder := filepath.Join(dir, SocketFile+".new")
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
	made := filepath.Join(folder, SocketFile)
	if err = os.Chmod(made, 0o600); err == nil {
		err = os.Rename(made, filepath.Join(dir, SocketFile))
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// Call sends a question to the process that runs the crawl in dir, and
// decodes the reply into answer. An error of that process is returned as that process had it: see
// Problem. A *BrokenCallError reports a call without a complete answer.
func Call(ctx context.Context, dir, verb string, question, answer any) error {
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
		return &BrokenCallError{dir, !is || failed.Op != "dial", errors.Unwrap(err)} // without the URL, which is made up
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var p Problem
		if err := json.NewDecoder(response.Body).Decode(&p); err != nil {
			return &BrokenCallError{dir, true, err}
		}
		return p.Err()
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return &BrokenCallError{dir, true, err}
	}
	return nil
}

// BrokenCallError reports that a call through the control socket got no complete answer. The
// process that listened might have died meanwhile.
type BrokenCallError struct {
	Dir  string
	Sent bool // the question may have been answered
	Err  error
}

// Error implements error.
func (e *BrokenCallError) Error() string {
	return fmt.Sprintf("ask the crawl that runs in %s: %v", e.Dir, e.Err)
}

// Unwrap returns the cause.
func (e *BrokenCallError) Unwrap() error { return e.Err }

// SocketFile is the name of the socket on which a running crawl answers other
// processes.
const SocketFile = "control.sock"

// maxSocketPath is the longest path, in bytes, that every system accepts for a socket.
const maxSocketPath = 100

// socketAddress returns a path to the socket in dir that is short enough for every
// system. If dir is long, the path leads through a symbolic link, which release
// removes.
func socketAddress(dir string) (name string, release func(), err error) {
	if name = filepath.Join(dir, SocketFile); len(name) <= maxSocketPath {
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
	return filepath.Join(short, "dir", SocketFile), release, nil
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

// Listens reports whether a process runs the crawl from dir.
func Listens(ctx context.Context, dir string) bool {
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
