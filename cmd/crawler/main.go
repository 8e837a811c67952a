// Command crawler crawls the web and says what it may have missed.
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
	// net/http tells there what a server did wrong on a connection that nobody
	// used: on the web that is every day's noise.
	log.SetOutput(io.Discard)
	// A umask that takes the owner's own rights away would have it make
	// directories that it cannot write to.
	syscall.Umask(syscall.Umask(0o077) &^ 0o700)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
