// Command crawler crawls the web and reports what it might have missed.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/cli"
)

func main() {
	// net/http logs errors of idle connections with package log. Such errors are frequent
	// on the web.
	log.SetOutput(io.Discard)
	// With a umask that takes rights from the owner, the owner could not write to new
	// directories.
	syscall.Umask(syscall.Umask(0o077) &^ 0o700)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
