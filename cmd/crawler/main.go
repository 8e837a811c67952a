// Command crawler crawls the web and says what it may have missed.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
