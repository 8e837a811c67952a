// Command crawler crawls the web and reports what it might have missed.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

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
	go endAfterSecondSignal()
	code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// lastWords is how long a command may go on after a second signal.
const lastWords = 1500 * time.Millisecond

// endAfterSecondSignal ends the process lastWords after a second signal, whatever it is doing.
// Each command can be killed at any time.
func endAfterSecondSignal() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	second := <-signals
	time.Sleep(lastWords)
	fmt.Fprintln(os.Stderr, "crawler: ended by the second signal, as if it was killed")
	code := 128 + int(syscall.SIGINT)
	if second == syscall.SIGTERM {
		code = 128 + int(syscall.SIGTERM)
	}
	os.Exit(code)
}
