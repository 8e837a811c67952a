package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/bench/site"
)

// serve serves a folder on loopback, prints the URL of its root, and goes on
// until ctx ends.
func serve(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("peers serve", flag.ContinueOnError)
	dir := flags.String("dir", "", "the folder to serve")
	listen := flags.String("listen", "127.0.0.1:0", "address and port; port 0 picks a free one")
	packed := flags.Bool("gzip", false, "send answers with gzip")
	child := flags.Bool("child", false, "stop when standard input ends: the parent is gone")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if info, err := os.Stat(*dir); err != nil {
		return fmt.Errorf("serve: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("serve: %q is not a folder", *dir)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	if *child {
		orphaned, cancel := context.WithCancel(ctx)
		defer cancel()
		ctx = orphaned
		// Ends with the process at the latest: a read of stdin takes no context.
		go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	}
	handler := site.Handler(*dir)
	if *packed {
		handler = coded(handler)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if _, err := fmt.Fprintf(stdout, "http://%s/\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// serveElsewhere serves dir from a process of its own, so that neither the
// crawler's memory nor its garbage collector sees the server, and returns the
// URL and what ends the process.
func serveElsewhere(ctx context.Context, dir string, packed bool) (url string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	server := exec.CommandContext(ctx, self, "serve", "-child", "-dir", dir, fmt.Sprintf("-gzip=%t", packed))
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := server.Start(); err != nil {
		return "", nil, fmt.Errorf("start the server: %w", err)
	}
	stop = func() {
		_ = stdin.Close()
		_ = server.Wait() // its complaints went to stderr
	}
	url, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("the server told no URL: %w", err)
	}
	return strings.TrimSpace(url), stop, nil
}
